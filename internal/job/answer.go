package job

import (
	"bytes"
	"encoding/json"
	"fmt"
)

// Answer is what a target answered to one attempt, as far as its connection keeps it:
// redacted, and bounded by whoever made it.
type Answer struct {
	// Status is the HTTP status.
	Status int `json:"status"`
	// Headers are those that the connection names, in its order.
	Headers []AnswerHeader `json:"headers,omitempty"`
	// Body is text, valid UTF-8. Cut says that there was more of it.
	Body string `json:"body,omitempty"`
	Cut  bool   `json:"cut,omitempty"`
	// Omission is why there is no Body, if there was one.
	Omission BodyOmission `json:"omission,omitempty"`
}

// AnswerHeader is one header of an answer.
type AnswerHeader struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// BodyOmission says why a body is not kept. The numbers are stored, and are the
// contract's BodyOmission numbers.
type BodyOmission uint8

const (
	// BodyBinary: it is no text.
	BodyBinary BodyOmission = iota + 1
	// BodyEncoded: it is compressed, so that no secret can be recognized in it.
	BodyEncoded
)

// Encode gives the answer as stores keep it; nil for none. Markup takes the space that it
// has: no browser reads this.
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

// DecodeAnswer reads what Encode gave; none for no bytes.
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
