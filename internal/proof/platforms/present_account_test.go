package platforms_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/fireonce/fireonce/internal/connector/feed/feedtest"
	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/internal/proof/faultproxy"
	"github.com/fireonce/fireonce/internal/proof/platforms"
	"github.com/fireonce/fireonce/store"
)

// counter stands before a feed. It counts the posts that are sent and the looks, and answers
// some looks late, with what was there when they came.
type counter struct {
	feed *feedtest.Platform

	mu    sync.Mutex
	posts int
	looks int
	held  []*heldLook // the first looks
	// hidden is set while the answers lack every post. The first watermark that is read after
	// a post was sent is the last such answer.
	hidden bool
}

// heldLook is a look whose answer waits until it is let go.
type heldLook struct{ came, let chan struct{} }

// count starts a feed behind a counter that holds the answers to the first looks.
func count(t *testing.T, held int) (*counter, platforms.Platform) {
	t.Helper()
	c := &counter{feed: feedtest.New(feedtest.Options{})}
	for range held {
		c.held = append(c.held, &heldLook{make(chan struct{}), make(chan struct{})})
	}
	server := httptest.NewServer(c)
	t.Cleanup(server.Close)
	return c, feedOf(t, c.feed, server.URL)
}

func (c *counter) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	answer := httptest.NewRecorder()
	c.feed.ServeHTTP(answer, r)
	hidden, held := c.note(r)
	if hidden {
		answer.Body.Reset()
		_ = json.NewEncoder(answer.Body).Encode(map[string]any{
			"account": "account-1", "now": time.Now().UTC(), "posts": []any{}, "next": nil,
		})
	}
	if held != nil {
		close(held.came)
		select {
		case <-held.let:
		case <-r.Context().Done():
		}
	}
	for name, values := range answer.Header() {
		w.Header()[name] = values
	}
	w.Header().Del("Content-Length")
	w.WriteHeader(answer.Code)
	_, _ = w.Write(answer.Body.Bytes())
}

// note counts a request.
func (c *counter) note(r *http.Request) (hidden bool, held *heldLook) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case r.Method == http.MethodPost:
		c.posts++
		return false, nil
	case r.URL.Query().Get("limit") != "100": // a watermark
		hidden = c.hidden
		c.hidden = c.hidden && c.posts == 0
		return hidden, nil
	}
	c.looks++
	if c.looks <= len(c.held) {
		held = c.held[c.looks-1]
	}
	return c.hidden, held
}

// made checks how many posts were sent, and how many are there.
func (c *counter) made(t *testing.T, want int) {
	t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	if n := len(c.feed.Posts()); n != want || c.posts != want {
		t.Errorf("%d objects by %d requests, want %d", n, c.posts, want)
	}
}

// isPresent checks that a job was canceled because its content was there.
func isPresent(t *testing.T, w *platforms.World, id job.ID, attempts int) {
	t.Helper()
	s := w.Until(id, "ended", func(s job.Snapshot) bool { return s.State.Terminal() })
	if s.State != job.Canceled || s.Attempt != attempts || s.Effect != nil || s.LastError == nil || s.LastError.Kind != job.FailAlreadyPresent {
		t.Errorf("%s, %d attempts, effect %+v, error %+v\n%s", s.State, s.Attempt, s.Effect, s.LastError, w.Story(id))
	}
}

// Two connections of one account, whose name only its posts tell: the second job's look is not
// answered before the first job has been sent.
func TestPresentThroughTwoConnections(t *testing.T) {
	t.Parallel()
	c, p := count(t, 2)
	w := platforms.NewWorld(t, p)
	skip, again := platforms.SkipIfPresent(time.Hour), w.Again()
	one := w.Submit("one", p.Payload("words"), skip)
	<-c.held[0].came
	two := w.Submit("two", p.Payload("words"), skip, platforms.Through(again))
	w.Until(two, "waiting, or looking", func(s job.Snapshot) bool { return s.Blocked != "" || closed(c.held[1].came) })
	close(c.held[0].let)
	w.UntilState(one, job.Succeeded)
	close(c.held[1].let)
	isPresent(t, w, two, 0)
	c.made(t, 1)
}

func closed(c chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// A job waits for its second attempt while another one makes the content.
func TestPresentBeforeALaterAttempt(t *testing.T) {
	t.Parallel()
	for name, first := range map[string]faultproxy.Fate{
		"answered 503": status(http.StatusServiceUnavailable, ""), "request lost": {Fault: faultproxy.DropBefore},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, p := count(t, 0)
			w := platforms.NewWorld(t, p)
			w.Proxy.Plan(faultproxy.On(http.MethodPost, "/posts", first, faultproxy.Fate{}))
			skip := platforms.SkipIfPresent(time.Hour)
			one := w.Submit("one", p.Payload("words"), skip, func(n *store.NewJob) { n.Spec.Retry.MinBackoff = 5 * time.Minute })
			w.UntilState(one, job.Retrying)
			two := w.Submit("two", p.Payload("words"), skip)
			w.UntilState(two, job.Succeeded)
			w.RunNow(one)
			isPresent(t, w, one, 1)
			c.made(t, 1)
		})
	}
}

// Two servers look for one content, both before either has sent.
func TestPresentAtTwoServers(t *testing.T) {
	t.Parallel()
	c, p := count(t, 2)
	w := platforms.NewPair(t, p)
	skip := platforms.SkipIfPresent(time.Hour)
	ids := []job.ID{w.Submit("one", p.Payload("words"), skip), w.Submit("two", p.Payload("words"), skip)}
	<-c.held[0].came
	<-c.held[1].came // neither server has had an answer
	close(c.held[0].let)
	ended := func(as job.State) (n int) {
		for _, id := range ids {
			if w.Job(id).State == as {
				n++
			}
		}
		return n
	}
	w.Until(ids[0], "one of two sent", func(job.Snapshot) bool { return ended(job.Succeeded) == 1 })
	close(c.held[1].let)
	for _, id := range ids {
		w.Until(id, "ended", func(s job.Snapshot) bool { return s.State.Terminal() })
	}
	if ended(job.Canceled) != 1 {
		t.Errorf("%s\n%s", w.Story(ids[0]), w.Story(ids[1]))
	}
	c.made(t, 1)
}

// A post whose answer was lost is shown late: after the look for an own effect, and before the
// look for the content. It is the job's own all the same.
func TestAnOwnPostIsNotAlreadyPresent(t *testing.T) {
	t.Parallel()
	c, p := count(t, 0)
	c.hidden = true
	w := platforms.NewWorld(t, p)
	w.Proxy.Plan(faultproxy.On(http.MethodPost, "/posts", faultproxy.Fate{Fault: faultproxy.DropAfter}, faultproxy.Fate{}))
	id := w.Submit("one", p.Payload("words"), platforms.SkipIfPresent(time.Hour))
	s := w.Until(id, "ended", func(s job.Snapshot) bool { return s.State.Terminal() })
	if s.State != job.Succeeded || s.Attempt != 1 || s.Effect == nil || s.Effect.Proof != job.ProofObserved {
		t.Errorf("%s, %d attempts, effect %+v\n%s", s.State, s.Attempt, s.Effect, w.Story(id))
	}
	c.made(t, 1)
}
