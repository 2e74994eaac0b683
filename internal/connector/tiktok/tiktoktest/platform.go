// Package tiktoktest is a simulated TikTok for tests and the sandbox: the part of its
// Content Posting API that docs/platforms/tiktok.md describes, over real HTTP. The test
// supplies the clock by which posts are processed. The platform counts posts by itself.
// It is a fake, made after the reference and not compared with the real platform.
package tiktoktest

import (
	"crypto/sha256"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/fireonce/fireonce/internal/proof/loopback"
)

// Answer is what becomes of a call of the API.
type Answer int

const (
	// Reply does what the call asks for.
	Reply Answer = iota
	// Unauthorized answers 401 and access_token_invalid, without an effect.
	Unauthorized
	// RateLimit answers 429 and rate_limit_exceeded, without an effect.
	RateLimit
)

// Options change how a platform acts. The zero value is prompt and allows all.
type Options struct {
	// Token is what Authorization must carry; empty allows every request.
	Token string
	// Now returns the time; nil means time.Now.
	Now func() time.Time
	// Privacies are what the account offers; nil: all four.
	Privacies []string
	// Domain, if not empty, is the one that photos and videos may be fetched from.
	Domain string
	// Fetch is how long TikTok takes to fetch a file, Process how long it works on what
	// it has, Moderate how long after that a public post has an id.
	Fetch, Process, Moderate time.Duration
	// Inbox puts what was processed into the account's inbox until Finish is called.
	Inbox bool
	// Fail sets the fail_reason of posts with a text; empty: none.
	Fail func(text string) string
	// UploadLife is for how long an upload takes bytes; zero means an hour. A post
	// whose video is not whole by then stays what it is, or fails with FailUploads.
	UploadLife  time.Duration
	FailUploads bool
	// Plan decides what becomes of a call of the API, by its path, before anything else does;
	// uploads are no calls. Nil: Reply.
	Plan func(path string) Answer
	// NoScopes leaves user.info.basic and video.list out of the token's scopes.
	NoScopes bool
}

// Post is a post that took effect, or will for sure.
type Post struct {
	// ID is the public post's, empty as long as it has none.
	ID, PublishID string
	Text, Privacy string
	// SHA256 is of the video that was uploaded; URLs are what TikTok fetched.
	SHA256 [sha256.Size]byte
	URLs   []string
}

// post is one that was begun.
type post struct {
	Post
	number          int
	begun           time.Time
	photo           bool
	size, chunk     int64
	chunks, got     int64
	video           []byte
	token           string
	whole, finished time.Time // zero: not yet
}

// Platform is a simulated TikTok. It is safe for concurrent use.
type Platform struct {
	loopback.Fake
	mux *http.ServeMux

	mu      sync.Mutex
	opts    Options
	uploads string
	posts   []*post
	polls   int
	foreign []listed
}

// listed is a video that a person made in the app.
type listed struct {
	id, text string
	at       time.Time
}

// New makes a platform that does not listen; it serves as an http.Handler. Uploads says
// where its uploads go.
func New(opts Options) *Platform {
	if opts.Now == nil {
		opts.Now = time.Now
	}
	if opts.UploadLife == 0 {
		opts.UploadLife = time.Hour
	}
	if opts.Privacies == nil {
		opts.Privacies = []string{"PUBLIC_TO_EVERYONE", "MUTUAL_FOLLOW_FRIENDS", "FOLLOWER_OF_CREATOR", "SELF_ONLY"}
	}
	p := &Platform{opts: opts, mux: http.NewServeMux()}
	p.routes()
	return p
}

// Start makes a platform and serves on a loopback port.
func Start(opts Options) (*Platform, error) {
	p := New(opts)
	if err := p.Listen(p); err != nil {
		return nil, err
	}
	p.Uploads(p.URL())
	return p, nil
}

// ServeHTTP serves the API, and uploads.
func (p *Platform) ServeHTTP(w http.ResponseWriter, r *http.Request) { p.mux.ServeHTTP(w, r) }

// Uploads sets the base URL that uploads go to, e.g. a proxy's.
func (p *Platform) Uploads(base string) { p.set(func() { p.uploads = base }) }

// Set changes the options from now on.
func (p *Platform) Set(change func(*Options)) { p.set(func() { change(&p.opts) }) }

func (p *Platform) set(change func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	change()
}

// Finish has the account's owner post what lies in the inbox.
func (p *Platform) Finish() {
	p.set(func() {
		for _, q := range p.posts {
			if q.finished.IsZero() {
				q.finished = p.opts.Now()
			}
		}
	})
}

// Upload has the account's owner post a video in the app.
func (p *Platform) Upload(text string) (id string) {
	p.set(func() {
		id = "7" + strconv.Itoa(900_000+len(p.foreign))
		p.foreign = append(p.foreign, listed{id, text, p.opts.Now()})
	})
	return id
}

// Begun counts the posts that were begun, whatever became of them.
func (p *Platform) Begun() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.posts)
}

// Polls counts the questions about posts.
func (p *Platform) Polls() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.polls
}

// Posts returns every post with a text that TikTok has all of and does not refuse:
// those that are there, and those that nothing can keep from coming.
func (p *Platform) Posts(text string) []Post {
	var out []Post
	for _, q := range p.All() {
		if q.Text == text {
			out = append(out, q)
		}
	}
	return out
}

// All returns the posts of Posts for every text, in the order in which they were begun.
func (p *Platform) All() []Post {
	p.mu.Lock()
	defer p.mu.Unlock()
	var out []Post
	for _, q := range p.posts {
		if !q.whole.IsZero() && p.fails(q) == "" {
			one := q.Post
			one.ID = q.id()
			out = append(out, one)
		}
	}
	return out
}

func (q *post) id() string { return "7" + strconv.Itoa(100_000+q.number) }

func (p *Platform) fails(q *post) string {
	if p.opts.Fail == nil {
		return ""
	}
	return p.opts.Fail(q.Text)
}

// status is TikTok's answer about a post now.
func (p *Platform) status(q *post) (status, reason, id string) {
	now := p.opts.Now()
	switch {
	case q.whole.IsZero():
		if p.opts.FailUploads && now.After(q.begun.Add(p.opts.UploadLife)) {
			return "FAILED", "internal", ""
		}
		return "PROCESSING_UPLOAD", "", ""
	case now.Before(q.whole):
		return "PROCESSING_DOWNLOAD", "", ""
	}
	ready := q.whole.Add(p.opts.Process)
	switch {
	case now.Before(ready):
		if len(q.URLs) > 0 {
			return "PROCESSING_DOWNLOAD", "", ""
		}
		return "PROCESSING_UPLOAD", "", ""
	case p.fails(q) != "":
		return "FAILED", p.fails(q), ""
	case p.opts.Inbox && q.finished.IsZero():
		return "SEND_TO_USER_INBOX", "", ""
	}
	if q.finished.After(ready) {
		ready = q.finished
	}
	if q.Privacy != "PUBLIC_TO_EVERYONE" || now.Before(ready.Add(p.opts.Moderate)) {
		return "PUBLISH_COMPLETE", "", ""
	}
	return "PUBLISH_COMPLETE", "", q.id()
}
