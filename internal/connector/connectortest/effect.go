package connectortest

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/fireonce/fireonce/internal/connector"
	"github.com/fireonce/fireonce/internal/job"
)

// Clock is a time that a test moves by hand. Give platform, connector and effects the
// same one.
type Clock struct {
	mu  sync.Mutex
	now time.Time
}

// NewClock returns a clock that stands at a moment within a second.
func NewClock() *Clock { return &Clock{now: time.Date(2026, 11, 21, 8, 0, 0, 250e6, time.UTC)} }

// Now is the time.
func (c *Clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

// Pass lets time pass.
func (c *Clock) Pass(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

// FenceTime is the engine's: the answer's deadline, and the grace behind it.
const FenceTime = time.Minute

// Effect is one job with its attempts on an OBSERVABLE platform, made and looked for as
// the engine does.
type Effect struct {
	Connector interface {
		connector.Connector
		connector.Observer
	}
	*Clock
	// Opening is what each session is opened with, the prepared request in it.
	Opening connector.Opening
	Key     string
	ReadLag time.Duration
	// Taken are objects that settle other jobs.
	Taken map[string]bool
	// Uploads is how long uploads between the watermark and the arm take.
	Uploads  time.Duration
	attempts []job.Attempt
	fence    time.Time
}

// Send arms and makes one attempt.
func (e *Effect) Send(t *testing.T) job.Outcome {
	t.Helper()
	mark, err := e.Connector.Watermark(t.Context(), e.Opening)
	if err != nil {
		t.Fatal(err)
	}
	e.Pass(e.Uploads)
	number := len(e.attempts) + 1
	e.attempts = append(e.attempts, job.Attempt{
		Number: number, Round: 1, ArmedAt: e.Now(), Frozen: e.Opening.Prepared.Frozen, Watermark: mark,
	})
	e.fence = e.Now().Add(FenceTime)
	e.Pass(50 * time.Millisecond)
	s, err := e.Connector.Open(t.Context(), e.Opening)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	at := time.Now().Add(30 * time.Second)
	o := s.Publish(connector.Commit{Attempt: number, EffectKey: e.Key, SendBy: at, AnswerBy: at})
	made := &e.attempts[number-1]
	made.Result, made.Kind, made.HTTPStatus, made.Message = o.Result, o.Kind, o.HTTPStatus, o.Message
	return o
}

// Settle lets the fence and the read lag pass.
func (e *Effect) Settle() { e.Pass(e.fence.Sub(e.Now()) + e.ReadLag) }

// Look looks immediately.
func (e *Effect) Look(t *testing.T) job.Observation {
	t.Helper()
	return e.Connector.Observe(t.Context(), e.Opening, connector.Look{
		First: e.attempts[0], Attempts: e.attempts, Fence: e.fence, Now: e.Now(),
		Taken: func(context.Context, []string) (map[string]bool, error) { return e.Taken, nil },
	})
}

// Sees settles and looks: the verdict must be as wanted, and its detail have the words.
func (e *Effect) Sees(t *testing.T, want job.Verdict, words string) job.Observation {
	t.Helper()
	e.Settle()
	return e.SeesNow(t, want, words)
}

// SeesNow is Sees without a wait.
func (e *Effect) SeesNow(t *testing.T, want job.Verdict, words string) job.Observation {
	t.Helper()
	o := e.Look(t)
	if o.Verdict != want || !strings.Contains(o.Detail, words) {
		t.Errorf("%s (%s), want %s with %q", o.Verdict, o.Detail, want, words)
	}
	return o
}
