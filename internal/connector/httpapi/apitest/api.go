// Package apitest is an API for tests and the sandbox that dedupes on Idempotency-Key as
// draft-ietf-httpapi-idempotency-key-header and Stripe do, over real HTTP: it
// commits what it gets, may then lose its answer, answers a repeat with what it
// stored, and counts what really took effect.
package apitest

import (
	"crypto/sha256"
	"encoding/json"
	"io"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/fireonce/fireonce/internal/proof/loopback"
)

// Answer is what an API does with one request that no stored answer settles.
type Answer int

const (
	// Reply commits and answers 201 with the object's id.
	Reply Answer = iota
	// Drop loses the request: no commit, and the connection is reset.
	Drop
	// Fail answers 503 without a commit, and stores nothing.
	Fail
	// RateLimit answers 429 without a commit, and stores nothing.
	RateLimit
	// Invalid answers 422 without a commit, and stores nothing: the content is
	// wrong.
	Invalid
	// StoredFail answers 500 without a commit, and stores that.
	StoredFail
	// Reset commits and resets the connection without an answer.
	Reset
	// Silence commits and never answers.
	Silence
	// CommitFail commits and answers 500, and stores that, as Stripe does.
	CommitFail
	// Unauthorized answers 401 without a commit, and stores nothing.
	Unauthorized
	// Forget commits and answers 504, and forgets the key: a repeat takes effect
	// again. No API should; some do.
	Forget
)

// commits and stores tell what an answer leaves behind.
func (a Answer) commits() bool {
	return a == Reply || a == Reset || a == Silence || a == CommitFail || a == Forget
}

func (a Answer) stores() bool { return a.commits() && a != Forget || a == StoredFail }

// Dialect is the form in which an API reports that a key was used for another request.
type Dialect int

const (
	// IETF answers 422 with a problem document (draft, section 2.7).
	IETF Dialect = iota
	// Stripe answers 400 with error.type idempotency_error.
	Stripe
)

// Request is one request that no stored answer settles.
type Request struct {
	Method, Subject, Key string
	// Number counts the requests of the subject, from 1, repeats included.
	Number int
	// Gone is closed when the client has given up or the API is closed, for plans
	// that block.
	Gone <-chan struct{}
}

// Options make an API. The zero value dedupes for a day.
type Options struct {
	// Window is how long a key is remembered. Zero means 24 h; negative: never, the
	// API does not dedupe.
	Window time.Duration
	// RequireKey refuses requests without a key with 400.
	RequireKey bool
	Dialect    Dialect
	// Now returns the time; nil means time.Now.
	Now func() time.Time
	// Plan decides what happens to a request. It is called before the commit, from many
	// goroutines, and may block; a repeat meanwhile is answered 409. Nil: Reply.
	Plan func(Request) Answer
}

// API is an HTTP API. A request's path names its subject: what is to happen
// once, by which it counts requests. It is safe for concurrent use.
type API struct {
	loopback.Fake
	opts Options

	mu      sync.Mutex
	keys    map[string]*entry
	effects map[string]int
	objects []Object
}

// Object is one that a request has made.
type Object struct {
	ID, Subject, Key, Body string
}

// entry is what is stored under a key.
type entry struct {
	print    [sha256.Size]byte
	at       time.Time
	inFlight bool
	status   int
	body     string
}

// New makes an API that does not listen; it serves as an http.Handler.
func New(opts Options) *API {
	if opts.Now == nil {
		opts.Now = time.Now
	}
	if opts.Window == 0 {
		opts.Window = 24 * time.Hour
	}
	return &API{opts: opts, keys: make(map[string]*entry), effects: make(map[string]int)}
}

// Start makes an API and serves on a loopback port.
func Start(opts Options) (*API, error) {
	a := New(opts)
	return a, a.Listen(a)
}

// URL is where requests for a subject go, of an API that listens.
func (a *API) URL(subject string) string { return a.Fake.URL() + "/" + subject }

// Effects counts the effects of a subject.
func (a *API) Effects(subject string) int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.effects[subject]
}

// Objects returns everything that was made, the oldest first.
func (a *API) Objects() []Object {
	a.mu.Lock()
	defer a.mu.Unlock()
	return append([]Object(nil), a.objects...)
}

// ServeHTTP serves any path.
func (a *API) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(io.LimitReader(r.Body, 1<<20))
	if err != nil {
		return // not the whole request: no effect
	}
	req := Request{Method: r.Method, Subject: r.URL.Path[1:], Key: r.Header.Get("Idempotency-Key")}
	fingerprint := sha256.Sum256([]byte(r.Method + " " + r.URL.String() + "\n" + string(body)))
	known, mine := a.receive(&req, fingerprint)
	switch {
	case req.Key == "" && a.opts.RequireKey:
		problem(w, http.StatusBadRequest, "Idempotency-Key is missing")
		return
	case known != nil && known.print != fingerprint:
		a.conflict(w)
		return
	case known != nil && known.inFlight:
		w.Header().Set("Retry-After", "1")
		problem(w, http.StatusConflict, "A request is outstanding for this Idempotency-Key")
		return
	case known != nil:
		w.Header().Set("Idempotent-Replayed", "true")
		say(w, known.status, known.body)
		return
	}
	var stop func()
	req.Gone, stop = a.Gone(r)
	defer stop()
	answer := Reply
	if a.opts.Plan != nil {
		answer = a.opts.Plan(req)
	}
	a.answer(w, req, answer, a.settle(req, string(body), answer, mine))
}

// receive counts a request and finds what is stored under its key; mine is the
// entry of a key that was not known.
func (a *API) receive(req *Request, fingerprint [sha256.Size]byte) (known *entry, mine *entry) {
	a.mu.Lock()
	defer a.mu.Unlock()
	req.Number = a.Count(req.Subject)
	if req.Key == "" || a.opts.Window < 0 {
		return nil, nil
	}
	now := a.opts.Now()
	if e := a.keys[req.Key]; e != nil && now.Before(e.at.Add(a.opts.Window)) {
		seen := *e
		return &seen, nil
	}
	mine = &entry{print: fingerprint, at: now, inFlight: true}
	a.keys[req.Key] = mine
	return nil, mine
}

// settle commits, and stores the answer under the key, or forgets the key. It returns
// the answer's status and body.
func (a *API) settle(req Request, body string, answer Answer, mine *entry) entry {
	a.mu.Lock()
	defer a.mu.Unlock()
	out := entry{status: http.StatusInternalServerError, body: `{"error":{"type":"api_error"}}`}
	if answer.commits() {
		id := "object-" + strconv.Itoa(len(a.objects)+1)
		a.objects = append(a.objects, Object{ID: id, Subject: req.Subject, Key: req.Key, Body: body})
		a.effects[req.Subject]++
		if answer != CommitFail {
			out.status, out.body = http.StatusCreated, `{"data":{"id":"`+id+`"}}`
		}
	}
	switch {
	case mine == nil:
	case answer.stores():
		mine.inFlight, mine.status, mine.body = false, out.status, out.body
	default:
		delete(a.keys, req.Key)
	}
	return out
}

func (a *API) answer(w http.ResponseWriter, req Request, answer Answer, out entry) {
	switch answer {
	case Drop, Reset:
		loopback.Reset(w)
	case Silence:
		<-req.Gone
		loopback.Reset(w)
	case Fail:
		problem(w, http.StatusServiceUnavailable, "try again later")
	case RateLimit:
		w.Header().Set("Retry-After", "1")
		problem(w, http.StatusTooManyRequests, "too many requests")
	case Unauthorized:
		problem(w, http.StatusUnauthorized, "the API key is not valid")
	case Invalid:
		problem(w, http.StatusUnprocessableEntity, "the amount is not valid")
	case Forget:
		problem(w, http.StatusGatewayTimeout, "no answer in time")
	default:
		say(w, out.status, out.body)
	}
}

// conflict answers that the key was used for another request.
func (a *API) conflict(w http.ResponseWriter) {
	if a.opts.Dialect == Stripe {
		say(w, http.StatusBadRequest, `{"error":{"type":"idempotency_error","message":"Keys for idempotent requests can only be used with the same parameters they were first used with."}}`)
		return
	}
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(http.StatusUnprocessableEntity)
	_, _ = io.WriteString(w, `{"type":"https://developer.example.com/idempotency","title":"Idempotency-Key is already used"}`)
}

func problem(w http.ResponseWriter, status int, title string) {
	text, err := json.Marshal(map[string]string{"title": title})
	if err != nil {
		panic(err)
	}
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(status)
	_, _ = w.Write(text) // a client that is gone is no news
}

func say(w http.ResponseWriter, status int, body string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = io.WriteString(w, body)
}
