package loopback

import (
	"encoding/json"
	"net/http"
	"sync"
)

// Fake is what the fakes of platforms share: a server of their own, and a count of the
// requests that came in. A fake embeds it. Its zero value works and does not listen, for a
// fake that is served as an http.Handler. It is safe for concurrent use.
type Fake struct {
	server *Server // nil: it does not listen

	counting sync.Mutex
	requests map[string]int
}

// Listen serves the fake's handler on a free loopback port. It is called once.
func (f *Fake) Listen(h http.Handler) error {
	server, err := Listen()
	if err != nil {
		return err
	}
	f.server = server
	server.Serve(h)
	return nil
}

// Close ends the fake and every answer that it holds back. It may be called twice.
func (f *Fake) Close() error { return f.server.Close() }

// URL is the base URL, without a slash at its end; empty for a fake that does not listen.
func (f *Fake) URL() string { return f.server.URL() }

// Gone is Server.Gone.
func (f *Fake) Gone(r *http.Request) (gone <-chan struct{}, stop func()) { return f.server.Gone(r) }

// Hold never answers a request: it waits until the client has given up.
func (f *Fake) Hold(w http.ResponseWriter, r *http.Request) {
	gone, stop := f.Gone(r)
	defer stop()
	<-gone
	Reset(w)
}

// Count counts a request of a kind, and returns how many there are of it.
func (f *Fake) Count(kind string) int {
	f.counting.Lock()
	defer f.counting.Unlock()
	if f.requests == nil {
		f.requests = make(map[string]int)
	}
	f.requests[kind]++
	return f.requests[kind]
}

// Requests returns how many requests of a kind were counted.
func (f *Fake) Requests(kind string) int {
	f.counting.Lock()
	defer f.counting.Unlock()
	return f.requests[kind]
}

// AllRequests returns how many requests were counted.
func (f *Fake) AllRequests() int {
	f.counting.Lock()
	defer f.counting.Unlock()
	all := 0
	for _, n := range f.requests {
		all += n
	}
	return all
}

// JSON answers with a message of JSON.
func JSON(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body) // a client that is gone is no news
}
