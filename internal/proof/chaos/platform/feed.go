package platform

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"sync"
	"time"

	"github.com/fireonce/fireonce/internal/connector/feed/feedtest"
	"github.com/fireonce/fireonce/internal/proof/loopback"
)

// staleAge is how old a listing must be at least to be sent as a stale one, and how
// far those are apart that are kept.
const staleAge = time.Second

// account is one account's feed.
type account struct {
	feed *feedtest.Platform
	// mu keeps a post from being listed before it is in the log.
	mu   sync.RWMutex
	made string // the id of the last post

	staleMu sync.Mutex
	stale   map[string][2]cached // first pages by query: one of old, and the next
}

// cached is a listing that was true when it was made.
type cached struct {
	at   time.Time
	body []byte
}

// account returns an account's feed, and makes it when it is first asked for.
func (p *Platform) account(name string) *account {
	p.mu.Lock()
	defer p.mu.Unlock()
	a := p.accounts[name]
	if a == nil {
		a = &account{stale: make(map[string][2]cached)}
		a.feed = feedtest.New(feedtest.Options{
			Account: name, Committed: func(_ feedtest.Request, post feedtest.Post) { a.made = post.ID },
		})
		p.accounts[name] = a
	}
	return a
}

// post serves POST /feed/{account}/posts.
func (p *Platform) post(w http.ResponseWriter, r *http.Request) {
	body, ok := p.body(r)
	if !ok {
		return
	}
	var in struct {
		Text string `json:"text"`
	}
	if err := json.Unmarshal(body, &in); err != nil || in.Text == "" {
		failed(http.StatusBadRequest, "not a post").send(w)
		return
	}
	name := r.PathValue("account")
	a := p.account(name)
	c := p.receive(Record{Type: TypeRequest, Face: FaceFeed + "/" + name, Subject: in.Text, Body: digestOf(body)})
	p.carryOut(w, r, c, func() (answer, uint64) {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.feed.SetReadLag(c.share(c.faults.ReadLag, drawLag))
		got := ask(a.feed, r, body)
		return got, p.took(c, a.made)
	})
}

// look serves GET /feed/{account}/posts.
func (p *Platform) look(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("account")
	a := p.account(name)
	c := p.receive(Record{Type: TypeLook, Face: FaceFeed + "/" + name})
	if !c.Fault.Commits() {
		p.refuse(w, c)
		return
	}
	got, ticket := p.list(a, r, c)
	if c.Fault == Delay && !p.pause(c.share(c.faults.Delay, drawTime)) {
		loopback.Reset(w)
		return
	}
	p.tell(w, r, c, got, ticket)
}

// list reads a page. The ticket is that of the last post that can be on it.
func (p *Platform) list(a *account, r *http.Request, c call) (answer, uint64) {
	a.mu.RLock()
	defer a.mu.RUnlock()
	query := r.URL.RawQuery
	first := !r.URL.Query().Has("before")
	if c.Fault == Stale {
		if old, ok := a.ofOld(query); ok && first {
			return answer{status: http.StatusOK, body: old}, p.log.last()
		}
		p.unstale()
	}
	got := ask(a.feed, r, nil)
	if first && got.status == http.StatusOK {
		a.keep(query, got.body)
	}
	return got, p.log.last()
}

// ofOld returns the youngest kept listing that is old enough to be a stale one.
func (a *account) ofOld(query string) ([]byte, bool) {
	a.staleMu.Lock()
	defer a.staleMu.Unlock()
	kept := a.stale[query]
	for i := len(kept) - 1; i >= 0; i-- {
		if kept[i].body != nil && time.Since(kept[i].at) >= staleAge {
			return kept[i].body, true
		}
	}
	return nil, false
}

// keep keeps a listing, so that there is always one of old once there was one.
func (a *account) keep(query string, body []byte) {
	a.staleMu.Lock()
	defer a.staleMu.Unlock()
	kept := a.stale[query]
	if now := time.Now(); now.Sub(kept[1].at) >= staleAge {
		a.stale[query] = [2]cached{kept[1], {at: now, body: body}}
	}
}

// ask asks the feed itself, which answers immediately. It may be asked when the
// client's own request is long over.
func ask(feed *feedtest.Platform, r *http.Request, body []byte) answer {
	inner := &http.Request{
		Method: r.Method, URL: &url.URL{Path: "/posts", RawQuery: r.URL.RawQuery},
		Header: make(http.Header), Body: io.NopCloser(bytes.NewReader(body)),
	}
	w := &recorder{header: make(http.Header), status: http.StatusOK}
	feed.ServeHTTP(w, inner)
	return answer{status: w.status, body: w.body.Bytes()}
}

// recorder keeps an answer instead of sending it.
type recorder struct {
	header http.Header
	status int
	body   bytes.Buffer
}

func (w *recorder) Header() http.Header         { return w.header }
func (w *recorder) WriteHeader(status int)      { w.status = status }
func (w *recorder) Write(b []byte) (int, error) { return w.body.Write(b) }
