package job

import (
	"bytes"
	"encoding/json"
	"fmt"
)

// Answer is a target's answer to one attempt: the part that the connection keeps. The caller
// that makes it has redacted it and bounded its size.
type Answer struct {
	// Status is the HTTP status.
	Status int `json:"status"`
	// Headers are the headers that the connection names, in its order.
	Headers []AnswerHeader `json:"headers,omitempty"`
	// Body is text, valid UTF-8. Cut reports whether the end of it was cut off.
	Body string `json:"body,omitempty"`
	Cut  bool   `json:"cut,omitempty"`
	// Omission is why the answer's body is not in Body; zero: it is, or there was none.
	Omission BodyOmission `json:"omission,omitempty"`
}

// AnswerHeader is one header of an answer.
type AnswerHeader struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// BodyOmission is the reason why a body is not kept. The numbers are stored, and are the
// contract's BodyOmission numbers.
type BodyOmission uint8

const (
	// BodyBinary: it is not text.
	BodyBinary BodyOmission = iota + 1
	// BodyEncoded: it is compressed, so that no secret can be recognized in it.
	BodyEncoded
)

// Encode returns the answer as stores keep it, and nil for a nil answer. It does not escape
// markup, because no browser reads the result.
func (a *Answer) Encode() []byte {
	if a == nil {
		return nil
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(a); err != nil {
		panic(err) // numbers and texts
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}

// DecodeAnswer decodes what Encode returned. It returns nil for no bytes.
func DecodeAnswer(b []byte) (*Answer, error) {
	if len(b) == 0 {
		return nil, nil
	}
	var a Answer
	if err := json.Unmarshal(b, &a); err != nil {
		return nil, fmt.Errorf("stored answer: %w", err)
	}
	return &a, nil
}
