package platforms

import (
	"testing"
	"time"

	"github.com/fireonce/fireonce/internal/connector"
	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/store"
)

// SkipIfPresent has a job end if its content is there, not older than d.
func SkipIfPresent(d time.Duration) Change {
	return func(n *store.NewJob) { n.Spec.SkipIfPresent = d }
}

// later is when a platform shows what it has, and its clock has gone on, which may go by
// whole seconds.
func later(n *store.NewJob) { n.ScheduleTime = job.Micros(time.Now().Add(3 * time.Second)) }

// What is there already is not made again, by us or by others, and what is not there is made.
// A job that makes nothing owns nothing.
func testPresent(t *testing.T, p Platform) {
	w := NewWorld(t, p)
	if !connector.FindsContent(w.code, p.Class) {
		t.Skip("nothing can be found here that no job has made")
	}
	skip := SkipIfPresent(time.Hour)
	if len(p.Payload("words").GetSocialPost().GetMedia()) > 0 { // a look cannot tell
		id := w.Submit("files", p.Payload("words"), skip, Window(2*time.Second))
		w.UntilState(id, job.Expired)
		w.once("words")
		return
	}
	first := w.Submit("first", p.Payload("plain words"))
	w.UntilState(first, job.Succeeded)
	w.skips(w.Submit("second", p.Payload("plain words"), skip, later), first)
	w.once("plain words", first)

	other := w.Submit("other", p.Payload("other words"), skip)
	w.UntilState(other, job.Succeeded)
	w.once("other words", other)

	// Of several objects, each will do.
	again := w.Submit("again", p.Payload("plain words"))
	w.UntilState(again, job.Succeeded)
	w.skips(w.Submit("third", p.Payload("plain words"), skip, later), first, again)
	w.once("plain words", first, again)
}

// skips checks that a job ends without an attempt, because of one of those jobs' effects.
func (w *World) skips(id job.ID, made ...job.ID) {
	w.t.Helper()
	s := w.UntilState(id, job.Canceled)
	if s.Attempt != 0 || s.Effect != nil || s.LastError == nil || s.LastError.Kind != job.FailAlreadyPresent {
		w.t.Errorf("%d attempts, effect %+v, error %+v\n%s", s.Attempt, s.Effect, s.LastError, w.Story(id))
	}
	looks, err := w.Store.Observations(w.t.Context(), store.Ref{ID: id}, 0, 10)
	if err != nil || len(looks) != 1 || looks[0].Verdict != job.SawPresent || looks[0].Attempt != 0 {
		w.t.Fatalf("looks: %+v, %v", looks, err)
	}
	for _, other := range made {
		if e := w.Job(other).Effect; e.ExternalID == looks[0].ExternalID && e.ExternalURL == looks[0].ExternalURL {
			return
		}
	}
	w.t.Errorf("it saw %q at %q, which is no effect of %v", looks[0].ExternalID, looks[0].ExternalURL, made)
}
