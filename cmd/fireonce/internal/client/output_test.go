package client

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/fireonce/fireonce/clients/go/fireoncev1"
)

// TestJSONDrivesNoTerminal: JSON and lines hold no control characters but line breaks.
func TestJSONDrivesNoTerminal(t *testing.T) {
	const evil = "x\x1b]0;title\x07\u009b2J\x7f"
	job := &fireoncev1.Job{JobId: evil}
	for name, show := range map[string]func(*printer) error{
		"one":    func(p *printer) error { return p.message(&fireoncev1.GetJobResponse{Job: job}) },
		"merged": func(p *printer) error { return p.merged(&fireoncev1.GetJobResponse{Job: job}) },
		"line":   func(p *printer) error { return p.compact(job) },
		"event": func(p *printer) error {
			p.event(&fireoncev1.JobEvent{Event: &fireoncev1.JobEvent_JobChanged{JobChanged: &fireoncev1.JobChanged{JobId: evil}}}, true)
			return nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			if err := show(&printer{w: &out}); err != nil {
				t.Fatal(err)
			}
			if strings.ContainsFunc(out.String(), func(r rune) bool { return r != '\n' && (r < ' ' || r >= 0x7f && r <= 0x9f) }) {
				t.Errorf("%q", out.String())
			}
			if name != "event" && !json.Valid(out.Bytes()) {
				t.Errorf("%q", out.String())
			}
		})
	}
}
