package platforms

import (
	"testing"
	"time"

	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/internal/proof/faultproxy"
	"github.com/fireonce/fireonce/store"
)

// ReplyTo makes a job answer another one.
func ReplyTo(id job.ID) Change { return func(n *store.NewJob) { n.Spec.ReplyTo = id } }

// Window is how late a job may start.
func Window(d time.Duration) Change { return func(n *store.NewJob) { n.Spec.StartWindow = d } }

// Each job answers the one before, whose answer is lost: it waits until the id is known,
// and goes to that.
func testThread(t *testing.T, p Platform) {
	if p.Parent == nil {
		t.Skip("nothing can be answered here")
	}
	w := NewWorld(t, p)
	w.commit(faultproxy.Fate{Fault: faultproxy.DropAfter}, faultproxy.Fate{Fault: faultproxy.DropAfter})
	first := w.Submit("one", p.Payload("first words"))
	second := w.Submit("two", p.Payload("second words"), ReplyTo(first))
	third := w.Submit("three", p.Payload("third words"), ReplyTo(second))
	w.UntilState(third, job.Succeeded)
	w.delivered(faultproxy.DropAfter)
	for text, id := range map[string]job.ID{"first words": first, "second words": second, "third words": third} {
		w.once(text, id)
	}
	a, b, c := w.Job(first).Effect.ExternalID, w.Job(second).Effect.ExternalID, w.Job(third).Effect.ExternalID
	to := b
	if p.FlatThreads {
		to = a
	}
	if p.Parent(a) != "" || p.Parent(b) != a || p.Parent(c) != to {
		t.Errorf("%s answers %q, %s answers %q, %s answers %q", a, p.Parent(a), b, p.Parent(b), c, p.Parent(c))
	}
}

// What an answer is to go to never comes to be: the answer ends, and the platform never
// hears of it.
func testThreadRefused(t *testing.T, p Platform) {
	if p.Parent == nil {
		t.Skip("nothing can be answered here")
	}
	w := NewWorld(t, p)
	w.commit(p.Refused)
	first := w.Submit("one", p.Payload("bad words"))
	second := w.Submit("two", p.Payload("second words"), ReplyTo(first))
	w.UntilState(first, job.Failed)
	s := w.UntilState(second, job.Canceled)
	if s.Attempt != 0 || s.LastError == nil || s.LastError.Kind != job.FailPredecessorEnded || len(p.Effects("second words")) != 0 {
		t.Errorf("%d attempts, error %+v, %d effects\n%s", s.Attempt, s.LastError, len(p.Effects("second words")), w.Story(second))
	}
}
