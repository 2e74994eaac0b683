// Package resendtest simulates Resend's API, as far as docs/platforms/resend.md
// describes it, over real HTTP: it dedupes on Idempotency-Key for a day, loses
// answers, fails after it has sent, limits and refuses, and counts what it has sent. It is for tests and the sandbox.
package resendtest

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/fireonce/fireonce/internal/proof/loopback"
)

// KeyWindow is how long a key is remembered.
const KeyWindow = 24 * time.Hour

// Answer is what becomes of a request that no remembered key settles.
type Answer int

const (
	// Reply sends and answers with the e-mail's id.
	Reply Answer = iota
	// Drop loses the request: nothing is sent, and the connection is reset.
	Drop
	// Fail answers 500 and sends nothing.
	Fail
	// Reset sends, and resets the connection without an answer.
	Reset
	// CommitFail sends, and answers 500.
	CommitFail
	// Silence sends, and never answers.
	Silence
	// RateLimit answers 429 with ratelimit-reset, and sends nothing.
	RateLimit
	// DayQuota answers 429 without, and sends nothing.
	DayQuota
	// Unauthorized answers 403 with invalid_api_key, and sends nothing.
	Unauthorized
)

func (a Answer) sends() bool { return a == Reply || a == Reset || a == CommitFail || a == Silence }

// Email is one that was sent.
type Email struct {
	ID      string   `json:"-"`
	Key     string   `json:"-"`
	From    string   `json:"from"`
	To      []string `json:"to"`
	CC      []string `json:"cc"`
	BCC     []string `json:"bcc"`
	ReplyTo []string `json:"reply_to"`
	Subject string   `json:"subject"`
	Text    string   `json:"text"`
	HTML    string   `json:"html"`
	// Headers are added to the message.
	Headers map[string]string `json:"headers"`
	// Attachments are those whose content came with the request.
	Attachments []Attachment `json:"attachments"`
}

// Attachment is one file.
type Attachment struct {
	Name    string `json:"filename"`
	Type    string `json:"content_type"`
	Content []byte `json:"content"`
}

// MaxAttachments bounds the files of an e-mail, in bytes of base64.
const MaxAttachments = 40_000_000

// tooLarge reports whether an e-mail has more than that.
func (e Email) tooLarge() bool {
	n := 0
	for _, a := range e.Attachments {
		n += base64.StdEncoding.EncodedLen(len(a.Content))
	}
	return n > MaxAttachments
}

// unusable reports whether an attachment is none.
func (e Email) unusable() bool {
	return slices.ContainsFunc(e.Attachments, func(a Attachment) bool { return a.Name == "" || len(a.Content) == 0 })
}

// Options make a platform.
type Options struct {
	// APIKeys are the valid keys; the value reports whether one may only send. Nil: any
	// key is valid.
	APIKeys map[string]bool
	// Domain is the verified one; empty: all are.
	Domain string
	// Now returns the time; nil means time.Now.
	Now func() time.Time
	// Plan decides what becomes of a request, the n-th of its key. It is called from many
	// goroutines and may block; a repeat meanwhile is answered 409. Nil: Reply.
	Plan func(key string, n int) Answer
}

// Platform is a simulated Resend, which counts requests by Idempotency-Key. It is safe for concurrent use.
type Platform struct {
	loopback.Fake
	opts Options

	mu   sync.Mutex
	keys map[string]*entry
	sent []Email
}

// entry is what is remembered of a key.
type entry struct {
	body   []byte
	at     time.Time
	atWork bool
	id     string
}

// New makes a platform that does not listen; it serves as an http.Handler.
func New(o Options) *Platform {
	if o.Now == nil {
		o.Now = time.Now
	}
	return &Platform{opts: o, keys: make(map[string]*entry)}
}

// Start makes a platform and serves on a loopback port.
func Start(o Options) (*Platform, error) {
	p := New(o)
	return p, p.Listen(p)
}

// Sent returns the e-mails that were sent, in order.
func (p *Platform) Sent() []Email {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]Email(nil), p.sent...)
}

// ServeHTTP serves POST /emails and GET /domains.
func (p *Platform) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	restricted, ok := p.authenticated(w, r)
	if !ok {
		return
	}
	switch {
	case r.Method == http.MethodPost && r.URL.Path == "/emails":
		p.send(w, r)
	case r.Method == http.MethodGet && r.URL.Path == "/domains" && restricted:
		fail(w, http.StatusUnauthorized, "restricted_api_key", "This API key is restricted to only send emails")
	case r.Method == http.MethodGet && r.URL.Path == "/domains":
		say(w, http.StatusOK, fmt.Sprintf(`{"data":[{"id":"d1","name":%q,"status":"verified"}]}`, p.opts.Domain))
	default:
		fail(w, http.StatusNotFound, "not_found", "The requested endpoint does not exist")
	}
}

func (p *Platform) authenticated(w http.ResponseWriter, r *http.Request) (restricted, ok bool) {
	key, found := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	if !found {
		fail(w, http.StatusUnauthorized, "missing_api_key", "Missing API key in the authorization header")
		return false, false
	}
	if p.opts.APIKeys == nil {
		return false, true
	}
	if restricted, ok = p.opts.APIKeys[key]; !ok {
		fail(w, http.StatusForbidden, "invalid_api_key", "API key is invalid")
	}
	return restricted, ok
}

func (p *Platform) send(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(io.LimitReader(r.Body, 64<<20))
	if err != nil {
		return // not the whole request
	}
	var email Email
	key := r.Header.Get("Idempotency-Key")
	switch err := json.Unmarshal(body, &email); {
	case key == "" || len(key) > 256:
		fail(w, http.StatusBadRequest, "invalid_idempotency_key", "The key must be between 1-256 chars")
		return
	case err != nil || email.From == "" || len(email.To) == 0 || email.Subject == "":
		fail(w, http.StatusUnprocessableEntity, "missing_required_field", "The request body is missing one or more required fields")
		return
	case email.unusable():
		fail(w, http.StatusUnprocessableEntity, "invalid_attachment", "Attachment must have either a content or path")
		return
	case email.tooLarge():
		fail(w, http.StatusUnprocessableEntity, "validation_error", "The attachments are too large")
		return
	case p.opts.Domain != "" && !strings.HasSuffix(strings.TrimSuffix(email.From, ">"), "@"+p.opts.Domain):
		fail(w, http.StatusForbidden, "validation_error", "The domain is not verified. Please, add and verify your domain")
		return
	}
	email.Key = key
	known, n := p.receive(key, body)
	switch {
	case known != nil && known.atWork:
		fail(w, http.StatusConflict, "concurrent_idempotent_requests", "Same idempotency key used while original request is still in progress")
		return
	case known != nil && !bytes.Equal(known.body, body):
		fail(w, http.StatusConflict, "invalid_idempotent_request", "Same idempotency key used with a different request payload")
		return
	case known != nil:
		say(w, http.StatusOK, fmt.Sprintf(`{"id":%q}`, known.id))
		return
	}
	answer := Reply
	if p.opts.Plan != nil {
		answer = p.opts.Plan(key, n)
	}
	p.answer(w, r, answer, p.settle(email, answer))
}

// receive counts a request and finds what is remembered of its key. A key that is
// not is at work from now on.
func (p *Platform) receive(key string, body []byte) (known *entry, n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	n = p.Count(key)
	if e := p.keys[key]; e != nil && (e.atWork || p.opts.Now().Before(e.at.Add(KeyWindow))) {
		seen := *e
		return &seen, n
	}
	p.keys[key] = &entry{body: body, at: p.opts.Now(), atWork: true}
	return nil, n
}

// settle sends, or forgets the key: only what was sent is remembered.
func (p *Platform) settle(email Email, answer Answer) (id string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !answer.sends() {
		delete(p.keys, email.Key)
		return ""
	}
	email.ID = "49a3999c-0ce1-4ea6-ab68-" + fmt.Sprintf("%012d", len(p.sent)+1)
	p.sent = append(p.sent, email)
	e := p.keys[email.Key]
	e.atWork, e.id = false, email.ID
	return email.ID
}

func (p *Platform) answer(w http.ResponseWriter, r *http.Request, answer Answer, id string) {
	switch answer {
	case Drop, Reset:
		loopback.Reset(w)
	case Silence:
		p.Hold(w, r)
	case Fail, CommitFail:
		fail(w, http.StatusInternalServerError, "application_error", "An unexpected error occurred")
	case RateLimit:
		w.Header().Set("Ratelimit-Reset", "1")
		fail(w, http.StatusTooManyRequests, "rate_limit_exceeded", "Too many requests")
	case Unauthorized:
		fail(w, http.StatusForbidden, "invalid_api_key", "API key is invalid")
	case DayQuota:
		fail(w, http.StatusTooManyRequests, "daily_quota_exceeded", "You have reached your daily email sending quota")
	default:
		say(w, http.StatusOK, fmt.Sprintf(`{"id":%q}`, id))
	}
}

// Failure is the body of an answer that is no success.
func Failure(status int, name, message string) string {
	return `{"statusCode":` + strconv.Itoa(status) + `,"name":` + strconv.Quote(name) + `,"message":` + strconv.Quote(message) + `}`
}

func fail(w http.ResponseWriter, status int, name, message string) {
	say(w, status, Failure(status, name, message))
}

func say(w http.ResponseWriter, status int, body string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = io.WriteString(w, body) // a client that is gone is no news
}
