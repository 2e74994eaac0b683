// Package feedtest is a feed platform for tests: the API of docs/platforms/feed.md
// over real HTTP, which commits what it gets, may then lose its answer, lists
// posts only after its read lag, and counts what really took effect. It knows
// nothing of keys: a post that is sent twice is there twice.
package feedtest

import (
	"errors"
	"io"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/fireonce/fireonce/internal/proof/loopback"
)

// Answer is what a platform does with one request.
type Answer int

const (
	// Reply commits a post and answers 201, or lists and answers 200.
	Reply Answer = iota
	// Drop loses the request: no commit, and the connection is reset.
	Drop
	// DropSilently loses the request and never answers.
	DropSilently
	// Fail answers 503 without a commit.
	Fail
	// RateLimit answers 429 with Options.RetryAfter, without a commit.
	RateLimit
	// Unauthorized answers 401 without a commit.
	Unauthorized
	// Forbid answers 403 without a commit.
	Forbid
	// Refuse answers 422 without a commit.
	Refuse
	// Reset commits and resets the connection without an answer.
	Reset
	// Silence commits and never answers; the client has to give up.
	Silence
	// CommitFail commits and answers 500.
	CommitFail
	// Truncate commits and breaks off in the middle of the answer's body.
	Truncate
	// Nameless commits and answers 201 without the post's id.
	Nameless
)

// Commits reports whether a post is there after this answer.
func (a Answer) Commits() bool {
	switch a {
	case Reply, Reset, Silence, CommitFail, Truncate, Nameless:
		return true
	default:
		return false
	}
}

// Request is one request as it came in.
type Request struct {
	// Method is POST for a post, GET for a listing.
	Method string
	// Text and ReplyTo are the post's; empty for a listing.
	Text, ReplyTo string
	// Number counts the posts with this text, from 1; for a listing, the listings.
	Number int
	// Gone is closed when the client has given up or the platform is closed, for
	// hooks that block.
	Gone <-chan struct{}
}

// Paging is how a platform lists.
type Paging int

const (
	// ByCursor lists newest first, each page from a cursor on.
	ByCursor Paging = iota
	// ByOffset lists newest first, each page from a number on: a post that comes
	// or goes between two pages moves the others.
	ByOffset
)

// Options make a Platform. The zero value works.
type Options struct {
	// Token is the bearer token that is asked for; empty: none is.
	Token string
	// Account is whose posts are listed. Empty: "account-1".
	Account string
	// ReadLag is how long a post is not listed after its commit.
	ReadLag time.Duration
	// ClockOffset is how far the platform's clock is ahead of Now.
	ClockOffset time.Duration
	// Now returns the time; nil means time.Now. A test that moves the clock of its
	// store moves this one with it, and feed.Config.Now.
	Now func() time.Time
	// Paging may be changed later with SetPaging.
	Paging Paging
	// PageLimit is the most posts of a page. Zero means 100.
	PageLimit int
	// RetryAfter is what RateLimit asks for, in whole seconds; zero means 1 s.
	RetryAfter time.Duration
	// Plan decides what happens to a request. It is called before the commit, from many
	// goroutines, and may block: a request whose Plan returns late is committed late.
	// Nil: Reply.
	Plan func(Request) Answer
	// Committed is called after a post was committed and before it is answered, from
	// many goroutines, and may block. Nil: nothing.
	Committed func(Request, Post)
	// Journal gets a line of JSON for each request and each effect; nil: no journal.
	Journal io.Writer
}

// Post is a post that took effect.
type Post struct {
	ID       string    `json:"id"`
	URL      string    `json:"url"`
	Text     string    `json:"text"`
	ReplyTo  string    `json:"in_reply_to,omitempty"`
	Language string    `json:"language,omitempty"`
	Created  time.Time `json:"created_at"`
}

// Totals counts what a platform got.
type Totals struct {
	// Posts and Listings count requests, Effects the posts that are there or were.
	Posts, Listings, Effects int
	// Texts is how many texts have an effect; Effects beyond that are Duplicates.
	Texts, Duplicates int
}

// Platform is a feed platform, which counts the requests to post by their text, committed or not.
// It is safe for concurrent use.
type Platform struct {
	loopback.Fake
	opts Options
	mux  *http.ServeMux

	mu       sync.Mutex
	paging   Paging
	lag      time.Duration
	offset   time.Duration
	account  string
	token    string
	posts    []entry
	effects  map[string]int
	listings int
}

// idPrefix begins the id of a post; its number follows.
const idPrefix = "post-"

// entry is a post with what only the platform knows.
type entry struct {
	Post
	shown   time.Time // listed from then on, by Options.Now
	deleted bool
}

// New makes a platform that does not listen; it serves as an http.Handler.
func New(opts Options) *Platform {
	if opts.Now == nil {
		opts.Now = time.Now
	}
	if opts.Account == "" {
		opts.Account = "account-1"
	}
	if opts.PageLimit <= 0 {
		opts.PageLimit = 100
	}
	p := &Platform{
		opts: opts, mux: http.NewServeMux(),
		paging: opts.Paging, lag: opts.ReadLag, offset: opts.ClockOffset, account: opts.Account, token: opts.Token,
		effects: make(map[string]int),
	}
	p.mux.HandleFunc("POST /posts", p.create)
	p.mux.HandleFunc("GET /posts", p.list)
	return p
}

// Start makes a platform and serves on a loopback port.
func Start(opts Options) (*Platform, error) {
	p := New(opts)
	return p, p.Listen(p)
}

// ServeHTTP serves the API.
func (p *Platform) ServeHTTP(w http.ResponseWriter, r *http.Request) { p.mux.ServeHTTP(w, r) }

// Effects counts the posts that took effect with exactly this text.
func (p *Platform) Effects(text string) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.effects[text]
}

// Posts returns every post that took effect, deleted and unlisted ones too, the
// oldest first.
func (p *Platform) Posts() []Post {
	p.mu.Lock()
	defer p.mu.Unlock()
	out := make([]Post, len(p.posts))
	for i, e := range p.posts {
		out[i] = e.Post
	}
	return out
}

// Totals counts everything so far.
func (p *Platform) Totals() Totals {
	p.mu.Lock()
	defer p.mu.Unlock()
	t := Totals{Posts: p.AllRequests(), Listings: p.listings, Effects: len(p.posts)}
	for _, n := range p.effects {
		t.Texts += min(n, 1)
	}
	t.Duplicates = t.Effects - t.Texts
	return t
}

// Post commits a post of another client that uses the same account. It counts as an
// effect, not as a request.
func (p *Platform) Post(text, replyTo string) Post {
	return p.commit(Post{Text: text, ReplyTo: replyTo})
}

// Delete takes a post out of the listing. It stays counted.
func (p *Platform) Delete(id string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i := range p.posts {
		if p.posts[i].ID == id {
			p.posts[i].deleted = true
			return nil
		}
	}
	return errors.New("feedtest: no post " + id)
}

// SetPaging changes how the platform lists from now on.
func (p *Platform) SetPaging(how Paging) { p.set(func() { p.paging = how }) }

// SetReadLag changes how long posts that are committed from now on stay
// unlisted.
func (p *Platform) SetReadLag(lag time.Duration) { p.set(func() { p.lag = lag }) }

// SetClockOffset sets the platform's clock.
func (p *Platform) SetClockOffset(offset time.Duration) { p.set(func() { p.offset = offset }) }

// SetAccount changes which account the token belongs to.
func (p *Platform) SetAccount(account string) { p.set(func() { p.account = account }) }

// SetToken changes the token that is asked for.
func (p *Platform) SetToken(token string) { p.set(func() { p.token = token }) }

func (p *Platform) set(change func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	change()
}

// commit makes a post durable and lists it after the lag.
func (p *Platform) commit(post Post) Post {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.opts.Now()
	post.ID = idPrefix + strconv.Itoa(len(p.posts)+1)
	post.URL = p.URL() + "/posts/" + post.ID
	post.Created = now.Add(p.offset).UTC()
	p.posts = append(p.posts, entry{Post: post, shown: now.Add(p.lag)})
	p.effects[post.Text]++
	p.journal(line{Event: "effect", Text: post.Text, ReplyTo: post.ReplyTo, ID: post.ID, Number: p.effects[post.Text], At: now})
	return post
}
