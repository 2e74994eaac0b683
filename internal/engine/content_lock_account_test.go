package engine_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/fireonce/fireonce/internal/connector/feed/feedtest"
	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/store"
)

// Two connections lead to one account, as two projects' may. The same text is
// wanted once through each, and the first one's request is lost. Its look must not
// take the other's post.
func TestTwoConnectionsToOneAccountShareItsGate(t *testing.T) {
	w, p := overFeed(t, func(r feedtest.Request) feedtest.Answer {
		if r.Method == http.MethodPost && r.Number == 1 {
			return feedtest.Drop
		}
		return feedtest.Reply
	})
	again := w.conn
	again.ID = newID()
	again, _, err := w.store.CreateConnection(t.Context(), store.NewConnection{
		Key: "again", Connection: again, Sealed: &store.Sealed{KeyID: "key", Data: []byte("sealed"), Fingerprint: "fp"},
	})
	if err != nil {
		t.Fatal(err)
	}
	w.start()
	// The second one's answer is in before the first one looks again.
	a := w.submit("one", posts("twin"), func(n *store.NewJob) { n.Spec.Retry.MinBackoff = 4 * time.Second })
	w.until(a, job.Ambiguous, 10*time.Second)
	w.conn = again
	b := w.submit("two", posts("twin"))
	one, two := w.until(a, job.Succeeded, time.Minute), w.until(b, job.Succeeded, time.Minute)
	if one.Effect.ExternalID == two.Effect.ExternalID || p.Effects("twin") != 2 {
		t.Errorf("%d posts, bound to %q and %q\n%s\n%s",
			p.Effects("twin"), one.Effect.ExternalID, two.Effect.ExternalID, w.story(a), w.story(b))
	}
}
