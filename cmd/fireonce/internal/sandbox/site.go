package sandbox

import (
	"bytes"
	"context"
	"crypto/sha256"
	"io"
	"maps"
	"net/http"
	"net/url"
	"sync"
	"time"

	"github.com/fireonce/fireonce/internal/connector/platform/fake"
	"github.com/fireonce/fireonce/internal/proof/loopback"
)

// Rules of this file:
//   - a platform serves one request at a time, at one moment of its clock, so that the journal
//     makes the same platform again;
//   - faults of the network are made here, the platform's answers by the fake.

const (
	// maxRequest bounds a request's body, in bytes.
	maxRequest = 64 << 20
	// mostVisits bounds the requests that the page shows.
	mostVisits = 12
)

// Thing is something that a platform has made.
type Thing struct {
	fake.Thing

	// At is when it first existed.
	At time.Time
}

// Visit is a request that was to have an effect, and its outcome.
type Visit struct {
	At     time.Time
	What   string
	Fault  Fault
	Status int // 0: no answer
}

// site is a fake of a platform at its address.
type site struct {
	fake.Fake

	// faults are those that the fake knows.
	faults []Fault
	made   fake.Platform

	base    string
	server  *loopback.Server
	journal *journal
	changed func()
	end     context.Context //nolint:containedctx // the life of what the site does later
	late    *sync.WaitGroup

	mu     sync.Mutex
	at     time.Time
	refuse Fault
	armed  Fault
	struck map[[sha256.Size]byte]bool
	kept   map[string]Fault
	first  map[string]time.Time
	visits []Visit
}

// now is the fake's clock: the request's moment while one is served.
func (s *site) now() time.Time {
	if s.at.IsZero() {
		return time.Now()
	}
	return s.at
}

// refusal returns the refusal for the request that the fake serves.
func (s *site) refusal() fake.Refusal {
	switch s.refuse {
	case Unauthorized:
		return fake.Unauthorized
	case RateLimit:
		return fake.RateLimit
	default:
		return fake.None
	}
}

// kind returns what a request is for.
func (s *site) kind(r request) fake.Kind { return s.made.Kind(r.Method, fake.Path(r.URI)) }

// arm sets the fault for the next request for an effect; None removes it.
func (s *site) arm(f Fault) {
	s.mu.Lock()
	s.armed = f
	s.mu.Unlock()
	s.changed()
}

// strike returns the fault of a request. The caller holds mu.
func (s *site) strike(r request, k fake.Kind) Fault {
	asked := s.asked(r)
	if k == fake.Effects && s.made.Tag != nil {
		tag := s.made.Tag(r.URI, nil)
		kept := s.kept[tag]
		delete(s.kept, tag)
		if kept != None {
			return kept
		}
	}
	if asked == None && s.armed != None && s.fits(s.armed, k) {
		asked, s.armed = s.armed, None
	}
	return asked
}

// fits reports whether a fault strikes this request, where two are needed for an effect: the
// platform refuses the first one, the network loses the second.
func (s *site) fits(f Fault, k fake.Kind) bool {
	return s.made.Tag == nil || f.refuses() == (k == fake.Prepares)
}

// asked returns the fault that a request's own text requests. Only the first request with a content
// has it. The caller holds mu.
func (s *site) asked(r request) Fault {
	f := word(r.Body, s.faults)
	if f == None {
		return None
	}
	content := sha256.Sum256(append([]byte(r.Method+" "+r.URI+"\n"), r.Body...))
	if s.struck[content] {
		return None
	}
	s.struck[content] = true
	return f
}

// ServeHTTP serves the platform.
func (s *site) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxRequest))
	if err != nil {
		loopback.Reset(w)
		return
	}
	req := request{Site: s.Name, Method: r.Method, URI: r.URL.RequestURI(), Header: kept(r.Header), Body: body}
	k := s.kind(req)
	s.mu.Lock()
	fault, later := None, None
	if k == fake.Prepares || k == fake.Effects {
		fault = s.strike(req, k)
	}
	if fault != None && !s.fits(fault, k) {
		fault, later = None, fault
	}
	if k == fake.Effects || fault != None {
		s.visits = append(s.visits, Visit{At: time.Now(), What: r.Method + " " + r.URL.Path, Fault: fault})
		s.visits = s.visits[max(0, len(s.visits)-mostVisits):]
	}
	s.mu.Unlock()
	defer s.changed()
	switch fault {
	case LoseRequest:
		loopback.Reset(w)
		return
	case CommitLate:
		s.late.Go(func() { s.actLater(r.Host, req, k) })
		loopback.Reset(w)
		return
	default:
	}
	got := s.act(r.Host, req, k, fault)
	if later != None {
		s.mu.Lock()
		s.kept[s.made.Tag(req.URI, got.body.Bytes())] = later
		s.mu.Unlock()
	}
	s.answer(w, r, fault, got)
}

// answer sends the fake's answer, unless the fault loses it.
func (s *site) answer(w http.ResponseWriter, r *http.Request, fault Fault, got *answer) {
	switch fault {
	case LoseAnswer:
		loopback.Reset(w)
		return
	case Slow:
		select {
		case <-time.After(slowBy):
		case <-r.Context().Done():
			return
		case <-s.end.Done():
		}
	default:
	}
	maps.Copy(w.Header(), got.header)
	w.WriteHeader(got.status)
	_, _ = w.Write(got.body.Bytes()) // the client may be gone
}

// actLater acts long after the client has gone. A sandbox that ends first drops the request.
func (s *site) actLater(host string, req request, k fake.Kind) {
	select {
	case <-time.After(lateBy):
		s.act(host, req, k, None)
		s.changed()
	case <-s.end.Done():
	}
}

// act lets the fake serve a request, at one moment, and records new things.
func (s *site) act(host string, req request, k fake.Kind, fault Fault) *answer {
	s.mu.Lock()
	defer s.mu.Unlock()
	req.At = time.Now().UTC()
	if k != fake.Reads && !fault.refuses() {
		if err := s.journal.add(req); err != nil {
			got := newAnswer()
			http.Error(got, "sandbox: "+err.Error(), http.StatusInsufficientStorage)
			return got
		}
	}
	got := s.play(host, req, fault)
	if n := len(s.visits); n > 0 && k == fake.Effects && fault != LoseAnswer {
		s.visits[n-1].Status = got.status
	}
	return got
}

// play lets the fake serve a request at its moment. The caller holds mu, or is alone.
func (s *site) play(host string, req request, fault Fault) *answer {
	got := newAnswer()
	to, err := url.ParseRequestURI(req.URI)
	if err != nil {
		http.Error(got, "sandbox: not an address", http.StatusBadRequest)
		return got
	}
	// A request has arrived or it has not: its client cannot take it back.
	r := (&http.Request{
		Method: req.Method, URL: to, RequestURI: req.URI, Host: host, Header: req.Header.Clone(),
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Body: io.NopCloser(bytes.NewReader(req.Body)), ContentLength: int64(len(req.Body)),
	}).WithContext(context.Background())
	s.at, s.refuse = req.At, fault
	s.made.Handler.ServeHTTP(got, r)
	s.refuse = None
	s.see()
	s.at = time.Time{}
	return got
}

// see records when things first existed. The caller holds mu, or is alone.
func (s *site) see() {
	for _, t := range s.made.List() {
		if _, known := s.first[t.ID]; !known {
			s.first[t.ID] = s.now()
		}
	}
}

// restore plays a request of the journal.
func (s *site) restore(r request) {
	s.asked(r)
	s.play("", r, None)
}

// seen is a site's state for the page.
type seen struct {
	Things []Thing
	Visits []Visit
	Armed  Fault
}

func (s *site) seen() seen {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.see()
	out := seen{Visits: append([]Visit(nil), s.visits...), Armed: s.armed}
	for _, t := range s.made.List() {
		out.Things = append(out.Things, Thing{t, s.first[t.ID]})
	}
	return out
}

// kept returns the headers that fakes read.
func kept(h http.Header) http.Header {
	out := make(http.Header)
	for _, name := range []string{
		"Authorization", "Content-Type", "Content-Range", "Idempotency-Key", "Webhook-Id", "Webhook-Timestamp", "Webhook-Signature",
	} {
		if v := h.Values(name); len(v) > 0 {
			out[name] = v
		}
	}
	return out
}

// answer is a fake's answer.
type answer struct {
	header http.Header
	status int
	body   bytes.Buffer
}

func newAnswer() *answer { return &answer{header: make(http.Header), status: http.StatusOK} }

// Header implements http.ResponseWriter.
func (a *answer) Header() http.Header { return a.header }

// WriteHeader implements http.ResponseWriter.
func (a *answer) WriteHeader(status int) { a.status = status }

// Write implements http.ResponseWriter.
func (a *answer) Write(p []byte) (int, error) { return a.body.Write(p) }
