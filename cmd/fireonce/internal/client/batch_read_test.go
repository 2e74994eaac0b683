package client

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/fireonce/fireonce/clients/go/fireoncev1"
)

// readBatch returns the keys of a batch with their lines, and the error at which it ends.
func readBatch(text string) (keys string, err error) {
	for in := newObjects(strings.NewReader(text)); ; {
		o, err := in.next()
		if errors.Is(err, io.EOF) {
			return strings.TrimSpace(keys), nil
		}
		req := &fireoncev1.ScheduleJobRequest{}
		if err == nil {
			err = readRequest(o, req)
		}
		if err != nil {
			return strings.TrimSpace(keys), err
		}
		keys += fmt.Sprintf("%s@%d ", req.GetIdempotencyKey(), o.line)
	}
}

// TestBatchForms checks that what is harmless is read.
func TestBatchForms(t *testing.T) {
	t.Parallel()
	const a, b = `{"idempotencyKey": "a"}`, `{"idempotencyKey": "b"}`
	for text, want := range map[string]string{
		"":                          "",
		"\n \r\n":                   "",
		"\ufeff":                    "",
		a:                           "a@1",
		a + "\n" + b + "\n":         "a@1 b@2",
		a + "\r\n\r\n" + b + "\r\n": "a@1 b@3",
		"\ufeff" + a + "\n" + b:     "a@1 b@2",
		a + b:                       "a@1 b@1",
		a + "\n\ufeff" + b:          "a@1 b@2",
		"\ufeff\ufeff" + a:          "a@1",
		"\x1e" + a + "\n\x1e" + b:   "a@1 b@2",
		"{\n  \"idempotencyKey\": \"a\"\n}\n\n{\n  \"idempotencyKey\":\n \"b\" }\n": "a@1 b@5",
		"[" + a + ", " + b + "]":            "a@1 b@1",
		"[\n  " + a + ",\n  " + b + "\n]\n": "a@2 b@3",
		"\ufeff[\r\n" + a + "\r\n]":         "a@2",
		"[]":                                "",
		`{"idempotencyKey": "}\"{", "labels": {"a": "["}}` + "\n" + b: `}"{@1 b@2`,
	} {
		if got, err := readBatch(text); err != nil || got != want {
			t.Errorf("%q: %s, %v, want %s", text, got, err, want)
		}
	}
}

// TestBatchFaults checks that anything else is an error with its place, after the objects before it.
func TestBatchFaults(t *testing.T) {
	t.Parallel()
	const a = `{"idempotencyKey": "a"}`
	for text, want := range map[string]string{
		a + ",\n" + a:                           "line 1, column 24: there is no comma between lines",
		"[" + a + ",]":                          "line 1, column 26: there is a comma before ]; leave that comma out",
		"[" + a + a + "]":                       "line 1, column 25: a comma is missing between two objects",
		"[" + a + "\n":                          "line 2, column 1: the list ends too early",
		"[" + a + "] " + a:                      "there is something after the list",
		"[" + a + ", 7]":                        "here must be an object",
		a + "\n// why\n" + a:                    "line 2, column 1: JSON has no comments; delete this line",
		a + "\n# why\n":                         "line 2, column 1: JSON has no comments",
		a + "\n\"text\"\n":                      "line 2, column 1: here must be an object",
		"key,url\na,b\n":                        "line 1, column 1: here must be an object",
		a + "\n{\"idempotencyKey\": \"b\",}":    "line 2, column 24: the ScheduleJobRequest is not JSON: there is a comma before }",
		a + "\n{\"idempotencyKey\": \"b\"":      "line 2, column 23: the ScheduleJobRequest is not JSON: it ends too early",
		a + "\n\n  {\"idempotencykey\": \"b\"}": `line 3, column 4: the ScheduleJobRequest has no field "idempotencykey"; did you mean "idempotencyKey"?`,
		"{\n \"payload\": {\n  \"webhook\": {\"bodyXml\": 1}}}": `line 3, column 15: payload.webhook: has no field "bodyXml"; did you mean "body" or "bodyText" or "bodyJson"?`,
		"\xff\xfe{\x00":                          "UTF-16",
		`{"a": "` + strings.Repeat("a", maxLine): "line 1: the object has more than ",
	} {
		if got, err := readBatch(text); err == nil || !strings.Contains(err.Error(), want) || len(err.Error()) > 500 {
			t.Errorf("%.80q: %s, %v, want %s", text, got, err, want)
		} else if strings.HasPrefix(text, a) && got != "a@1" {
			t.Errorf("%.80q: %q before the error", text, got)
		}
	}
}
