// Package slacktest is a simulated Slack for tests and the sandbox: the few methods of
// its Web API that the connector slack calls, over real HTTP on loopback, with the
// quirks that docs/platforms/slack.md names. It is written from documentation and not
// certified. It knows nothing of jobs, and counts effects.
package slacktest

import (
	"encoding/json"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/fireonce/fireonce/internal/proof/loopback"
)

// Answer is what the platform does with one request.
type Answer int

const (
	// Reply does what the request asks for, and answers so.
	Reply Answer = iota
	// Drop loses the request: no effect, and the connection is reset.
	Drop
	// Fail answers 503 without an effect.
	Fail
	// RateLimit answers 429 and ratelimited without an effect.
	RateLimit
	// Unauthorized answers 200 and invalid_auth without an effect.
	Unauthorized
	// Code answers 200 and Options.Code without an effect.
	Code
	// Reset has its effect, and resets the connection without an answer.
	Reset
	// CommitFail has its effect, and answers 500.
	CommitFail
	// Fatal has its effect, and answers 200 and fatal_error.
	Fatal
	// Nameless has its effect, and answers 200 and ok without saying where.
	Nameless
)

// Commits reports whether the effect is there after this answer.
func (a Answer) Commits() bool { return a == Reply || a >= Reset }

// Request is one request as it came in.
type Request struct {
	// Method is the method of the Web API, e.g. "chat.postMessage".
	Method string
	// Text is a message's; empty for other methods.
	Text string
	// Number counts the requests of this method, from 1.
	Number int
}

// Options make a Platform. The zero value works.
type Options struct {
	// Token is the token that is asked for; empty: any.
	Token string
	// Team, User and Bot are whose token it is. Empty: "T1", "U1" and "B1".
	Team, User, Bot string
	// ReadLag is how long a message is not listed after its commit.
	ReadLag time.Duration
	// PageLimit is the most messages of a page; zero: 1000. For most apps it is 15.
	PageLimit int
	// ReadEvery is how often one conversation may be read; zero: as often as one likes.
	// For most apps it is a minute.
	ReadEvery time.Duration
	// NoMetadata leaves metadata out of what is read, as for an app that may not see it.
	NoMetadata bool
	// Code is the error of the answer Code.
	Code string
	// RetryAfter is what RateLimit asks for, in whole seconds; zero: 1 s.
	RetryAfter time.Duration
	// ClockOffset is how far Slack's clock is ahead of Now.
	ClockOffset time.Duration
	// Now returns the time; nil means time.Now.
	Now func() time.Time
	// Plan decides what becomes of a request. It is called before the commit. Nil: Reply.
	Plan func(Request) Answer
}

// Message is a message that took effect.
type Message struct {
	Channel, TS, Thread string
	// Text is as it was sent.
	Text      string
	Broadcast bool
	Metadata  json.RawMessage
	User, Bot string

	shown   time.Time
	deleted bool
}

// Platform is a simulated Slack, which counts requests by method. It is safe for concurrent use.
type Platform struct {
	loopback.Fake
	opts Options
	mux  *http.ServeMux

	mu       sync.Mutex
	messages []Message
	lastTS   int64 // microseconds of the latest time stamp
	chats    map[string]string
	readAt   map[string]time.Time
}

// New makes a platform that does not listen; it serves as an http.Handler.
func New(opts Options) *Platform {
	if opts.Now == nil {
		opts.Now = time.Now
	}
	if opts.Team == "" {
		opts.Team, opts.User, opts.Bot = "T1", "U1", "B1"
	}
	if opts.PageLimit <= 0 {
		opts.PageLimit = 1000
	}
	p := &Platform{
		opts: opts, mux: http.NewServeMux(), chats: make(map[string]string), readAt: make(map[string]time.Time),
	}
	p.mux.HandleFunc("POST /chat.postMessage", p.post)
	p.mux.HandleFunc("POST /conversations.open", p.open)
	p.mux.HandleFunc("/auth.test", p.test)
	p.mux.HandleFunc("GET /conversations.history", p.list)
	p.mux.HandleFunc("GET /conversations.replies", p.list)
	return p
}

// Start makes a platform and serves on a loopback port.
func Start(opts Options) (*Platform, error) {
	p := New(opts)
	return p, p.Listen(p)
}

// ServeHTTP serves the API.
func (p *Platform) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	now := p.now()
	p.mu.Unlock()
	w.Header().Set("Date", now.Format(http.TimeFormat)) // its own clock, in whole seconds
	p.mux.ServeHTTP(w, r)
}

// Configure changes the options from now on.
func (p *Platform) Configure(change func(*Options)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	change(&p.opts)
}

// Messages returns everything that took effect, deleted messages too, the oldest first.
func (p *Platform) Messages() []Message {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]Message(nil), p.messages...)
}

// Effects counts the messages that took effect with exactly this text.
func (p *Platform) Effects(text string) int {
	n := 0
	for _, m := range p.Messages() {
		if m.Text == text {
			n++
		}
	}
	return n
}

// Say makes another account's message; an empty User is the account itself.
func (p *Platform) Say(m Message) Message {
	p.mu.Lock()
	defer p.mu.Unlock()
	if m.User == "" {
		m.User, m.Bot = p.opts.User, p.opts.Bot
	}
	return p.commit(m)
}

// now is the platform's own clock; the caller holds mu.
func (p *Platform) now() time.Time { return p.opts.Now().Add(p.opts.ClockOffset).UTC() }

// commit stamps a message with a time that no other has, and keeps it; the caller
// holds mu.
func (p *Platform) commit(m Message) Message {
	p.lastTS = max(p.lastTS+1, p.now().UnixMicro())
	m.TS = fmt.Sprintf("%d.%06d", p.lastTS/1e6, p.lastTS%1e6)
	m.shown, m.deleted = p.opts.Now().Add(p.opts.ReadLag), false
	p.messages = append(p.messages, m)
	return m
}
