package job

import (
	"strings"
	"testing"
)

// TestAnswerEncoding checks that markup is not escaped, and that decoding restores it.
func TestAnswerEncoding(t *testing.T) {
	a := &Answer{Status: 200, Headers: []AnswerHeader{{Name: "Link", Value: "<https://a.example>"}}, Body: strings.Repeat("<&>", 5000)}
	b := a.Encode()
	if len(b) > len(a.Body)+200 || b[len(b)-1] != '}' {
		t.Errorf("%d bytes for %d", len(b), len(a.Body))
	}
	got, err := DecodeAnswer(b)
	if err != nil || got.Body != a.Body || got.Headers[0] != a.Headers[0] || got.Status != a.Status {
		t.Errorf("%.100v, %v", got, err)
	}
	if (*Answer)(nil).Encode() != nil {
		t.Error("a nil answer was encoded as bytes")
	}
}
