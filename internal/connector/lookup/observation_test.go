package lookup_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/fireonce/fireonce/internal/connector"
	"github.com/fireonce/fireonce/internal/connector/lookup"
	"github.com/fireonce/fireonce/internal/connector/transport"
	"github.com/fireonce/fireonce/internal/job"
)

// TestUnseen: only a refused credential is reported as more than an inconclusive look,
// and no cause is disclosed.
func TestUnseen(t *testing.T) {
	cause := errors.New("dial 10.0.0.1")
	for kind, want := range map[job.FailureKind]job.FailureKind{job.FailAuth: job.FailAuth, job.FailTransient: 0, job.FailRateLimited: 0} {
		o := lookup.Unseen(fmt.Errorf("ask: %w", &connector.Refusal{Kind: kind, Msg: "no\nword", Err: cause}))
		if o.Verdict != job.SawInconclusive || o.Kind != want || o.Detail != "no word" {
			t.Errorf("%s: %+v", kind, o)
		}
	}
	if o := lookup.Unseen(errors.New(strings.Repeat("long ", 1000))); o.Kind != 0 || len(o.Detail) > transport.MaxMessage {
		t.Errorf("%+v", o)
	}
}

// A look that is limited says for how long.
func TestUnseenKeepsTheLimit(t *testing.T) {
	for kind, want := range map[job.FailureKind]time.Duration{job.FailRateLimited: time.Minute, job.FailTransient: 0, job.FailAuth: 0} {
		o := lookup.Unseen(fmt.Errorf("ask: %w", &connector.Refusal{Kind: kind, Msg: "no", RetryAfter: time.Minute}))
		if o.RetryAfter != want {
			t.Errorf("%s: asked again after %v, want %v", kind, o.RetryAfter, want)
		}
	}
}
