// Package xtest is a simulated X for tests and the sandbox: the few calls of its API v2
// that the connector x makes, over real HTTP on loopback, with the quirks that
// docs/platforms/x.md names. It is written from documentation and reports, and not
// certified. It knows nothing of jobs, and counts effects.
package xtest

import (
	"net/http"
	"strconv"
	"strings"
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
	// RateLimit answers 429 without an effect, with the time of the reset.
	RateLimit
	// Depleted answers 402 without an effect: the app's credits are used up.
	Depleted
	// Unauthorized answers 401 without an effect.
	Unauthorized
	// Suspended answers 403 without an effect: the account is suspended.
	Suspended
	// Forbid answers 403 without an effect: this request is not permitted.
	Forbid
	// Reset has its effect, and resets the connection without an answer.
	Reset
	// CommitFail has its effect, and answers 500.
	CommitFail
	// Nameless has its effect, and answers 201 without an id.
	Nameless
)

// Commits reports whether the effect is there after this answer.
func (a Answer) Commits() bool { return a == Reply || a == Reset || a == CommitFail || a == Nameless }

// Request is one request as it came in.
type Request struct {
	Method, Path string
	// Text is a post's or a message's; empty for reads.
	Text string
	// Number counts the requests of this method and path, from 1.
	Number int
}

// Options make a Platform. The zero value works.
type Options struct {
	// Token is the access token that is asked for; empty: any.
	Token string
	// Account is the user's id, Username the name. Empty: "1001" and "ada".
	Account, Username string
	// ReadLag is how long a post or message is not listed after its commit.
	ReadLag time.Duration
	// Duplicates is for how long X refuses the same content again; zero: it takes it.
	Duplicates time.Duration
	// PageLimit is the most objects of a page; zero: 100.
	PageLimit int
	// ResetAfter is when a rate limit ends; zero: after 15 minutes.
	ResetAfter time.Duration
	// ClockOffset is how far X's clock is ahead of Now.
	ClockOffset time.Duration
	// Rewrite changes a text in an undocumented way; nil: none.
	Rewrite func(text string) string
	// Behind has the targets of t.co links that were written as such; others lead elsewhere.
	Behind map[string]string
	// Now returns the time; nil means time.Now.
	Now func() time.Time
	// Plan decides what becomes of a request. It is called before the commit. Nil: Reply.
	Plan func(Request) Answer
}

// Object is a post or a direct message that took effect.
type Object struct {
	ID string
	// Text is as it was sent.
	Text string
	// ReplyTo and Quote are posts' ids, Recipient a direct message's user.
	ReplyTo, Quote, ReplySettings, Recipient string
	// Pictures are a post's.
	Pictures []Picture
	Created  time.Time

	sender  string
	shown   time.Time
	deleted bool
	history []string
}

// Picture is a picture that was uploaded.
type Picture struct {
	ID, Type, Alt string
	Bytes         []byte
}

// Platform is a simulated X. It is safe for concurrent use.
type Platform struct {
	loopback.Fake
	opts Options
	mux  *http.ServeMux

	mu       sync.Mutex
	objects  []Object
	pictures []Picture
	sequence uint64
}

// New makes a platform that does not listen; it serves as an http.Handler.
func New(opts Options) *Platform {
	if opts.Now == nil {
		opts.Now = time.Now
	}
	if opts.Account == "" {
		opts.Account = "1001"
	}
	if opts.Username == "" {
		opts.Username = "ada"
	}
	if opts.PageLimit <= 0 {
		opts.PageLimit = 100
	}
	if opts.ResetAfter <= 0 {
		opts.ResetAfter = 15 * time.Minute
	}
	p := &Platform{opts: opts, mux: http.NewServeMux()}
	p.mux.HandleFunc("POST /2/tweets", p.write)
	p.mux.HandleFunc("POST /2/dm_conversations/with/{user}/messages", p.write)
	p.mux.HandleFunc("POST /2/media/upload", p.upload)
	p.mux.HandleFunc("POST /2/media/metadata", p.describe)
	p.mux.HandleFunc("GET /2/users/me", p.me)
	p.mux.HandleFunc("GET /2/users/{user}/tweets", p.list)
	p.mux.HandleFunc("GET /2/dm_conversations/with/{user}/dm_events", p.list)
	return p
}

// Start makes a platform and serves on a loopback port.
func Start(opts Options) (*Platform, error) {
	p := New(opts)
	return p, p.Listen(p)
}

// ServeHTTP serves the API.
func (p *Platform) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	// Its own clock, in whole seconds.
	w.Header().Set("Date", p.clock().Format(http.TimeFormat))
	p.mux.ServeHTTP(w, r)
}

// Configure changes the options from now on.
func (p *Platform) Configure(change func(*Options)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	change(&p.opts)
}

// Effects counts the objects that took effect with exactly this text.
func (p *Platform) Effects(text string) int {
	n := 0
	for _, o := range p.Objects() {
		if o.Text == text {
			n++
		}
	}
	return n
}

// Objects returns everything that took effect, deleted things too, the oldest first.
func (p *Platform) Objects() []Object {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]Object(nil), p.objects...)
}

// Pictures returns everything that was uploaded, in a post or not.
func (p *Platform) Pictures() []Picture {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]Picture(nil), p.pictures...)
}

// Requests counts the requests to a path with a method.
func (p *Platform) Requests(method, path string) int {
	return p.Fake.Requests(method + " " + path)
}

// Post makes a post by hand, of the same account.
func (p *Platform) Post(o Object) Object {
	p.mu.Lock()
	defer p.mu.Unlock()
	o.sender = p.opts.Account
	return p.commit(o)
}

// Receive makes a direct message that the account gets from a user.
func (p *Platform) Receive(from, text string) Object {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.commit(Object{Text: text, Recipient: from, sender: from})
}

// Delete takes an object off every list. X refuses its content for as long as before.
func (p *Platform) Delete(id string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i := range p.objects {
		p.objects[i].deleted = p.objects[i].deleted || p.objects[i].ID == id
	}
}

// Edit replaces a post's text and, as X does, another id.
func (p *Platform) Edit(id, text string) Object {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i, o := range p.objects {
		if o.ID == id {
			p.objects[i].deleted = true
			history := o.history
			if len(history) == 0 {
				history = []string{id}
			}
			o.Text = text
			edited := p.commit(o)
			p.objects[len(p.objects)-1].history = append(append([]string(nil), history...), edited.ID)
			return edited
		}
	}
	return Object{}
}

func (p *Platform) clock() time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.now()
}

// now is the platform's own clock; the caller holds mu.
func (p *Platform) now() time.Time { return p.opts.Now().Add(p.opts.ClockOffset).UTC() }

// epoch is where the times of ids begin.
const epoch = 1288834974657

// commit assigns an object its id and keeps it; the caller holds mu.
func (p *Platform) commit(o Object) Object {
	now := p.now()
	p.sequence++
	o.ID = strconv.FormatUint(uint64(now.UnixMilli()-epoch)<<22|p.sequence&(1<<22-1), 10)
	o.Created, o.shown, o.history = now, p.opts.Now().Add(p.opts.ReadLag), nil
	o.deleted = false
	p.objects = append(p.objects, o)
	return o
}

// repeats reports whether the account has had the same content a short while ago; the
// caller holds mu.
func (p *Platform) repeats(o Object) bool {
	for _, old := range p.objects {
		if len(old.Pictures)+len(o.Pictures) == 0 && strings.EqualFold(old.Text, o.Text) && old.ReplyTo == o.ReplyTo && old.Recipient == o.Recipient && old.sender == p.opts.Account &&
			p.now().Sub(old.Created) < p.opts.Duplicates {
			return true
		}
	}
	return false
}
