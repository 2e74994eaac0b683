package exit

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"connectrpc.com/connect"

	"github.com/fireonce/fireonce/clients/go/fireoncev1"
)

// TestNoServerDrivesTheTerminal checks that texts of a server, and of targets that a server
// quotes, are printed without control characters.
func TestNoServerDrivesTheTerminal(t *testing.T) {
	const evil = "x\x1b]0;title\x07\u009b2J\x7f"
	details := map[string]*fireoncev1.ErrorDetail{
		"metadata": {Metadata: map[string]string{"a" + evil: evil}},
		"violations": {Violations: []*fireoncev1.FieldViolation{
			{Field: evil, Message: evil}, {Message: evil},
		}},
		"a conflict of jobs": {Context: &fireoncev1.ErrorDetail_IdempotencyConflict{IdempotencyConflict: &fireoncev1.IdempotencyConflict{
			Holder: &fireoncev1.IdempotencyConflict_JobId{JobId: evil}, MismatchedFields: []string{evil},
		}}},
		"a conflict of connections": {Context: &fireoncev1.ErrorDetail_IdempotencyConflict{IdempotencyConflict: &fireoncev1.IdempotencyConflict{
			Holder: &fireoncev1.IdempotencyConflict_ConnectionId{ConnectionId: evil},
		}}},
	}
	check := func(t *testing.T, err error) {
		t.Helper()
		var people, programs bytes.Buffer
		Print(&people, err)
		PrintJSON(&programs, err)
		for _, text := range []string{people.String(), programs.String()} {
			if strings.ContainsFunc(text, func(r rune) bool { return r != '\n' && (r < ' ' || r >= 0x7f && r <= 0x9f) }) {
				t.Errorf("%q", text)
			}
		}
		if !json.Valid(programs.Bytes()) {
			t.Errorf("%q", programs.String())
		}
	}
	for name, d := range details {
		t.Run(name, func(t *testing.T) {
			wire := connect.NewError(connect.CodeInvalidArgument, errors.New(evil))
			detail, err := connect.NewErrorDetail(d)
			if err != nil {
				t.Fatal(err)
			}
			wire.AddDetail(detail)
			check(t, wire)
		})
	}
	t.Run("of this program", func(t *testing.T) { check(t, errors.New("the job is FAILED: "+evil+"\n  next")) })
}
