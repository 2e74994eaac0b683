// Package mastodontest is a simulated Mastodon server, or one of its relatives, with
// one account, over real HTTP: the part of the API that docs/platforms/mastodon.md
// names, with the quirks that were read or seen there. It counts posts by itself. It is
// for tests and the sandbox.
package mastodontest

import (
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/fireonce/fireonce/internal/proof/loopback"
)

// Software is what a server runs.
type Software int

const (
	// Mastodon remembers a key for an hour after the post was stored.
	Mastodon Software = iota
	// OldMastodon does too, and names itself only by NodeInfo.
	OldMastodon
	// GoToSocial ignores the key.
	GoToSocial
	// Pleroma ignores the key, claims to be compatible, and returns no sources.
	Pleroma
)

// KeyLasts is how long Mastodon remembers a key.
const KeyLasts = time.Hour

// AccountID is the account's id.
const AccountID = "109350"

// Answer is what becomes of a request to the API that carries a token.
type Answer int

const (
	// Reply does what the request asks for.
	Reply Answer = iota
	// Unauthorized answers 401, without an effect.
	Unauthorized
	// RateLimit answers 429 with the time at which the limit ends, without an effect.
	RateLimit
)

// Options make a Server. The zero value works.
type Options struct {
	Software Software
	// Tokens are the account's access tokens. Nil: "first" and "second".
	Tokens []string
	// AnyToken takes every token for the account's.
	AnyToken bool
	// ReadLag is how long a post is not listed after its commit.
	ReadLag time.Duration
	// Now returns the time; nil means time.Now.
	Now func() time.Time
	// PageLimit is the most posts of a page. Zero means 40.
	PageLimit int
	// MaxCharacters is the longest post. Zero means 500.
	MaxCharacters int
	// ReplayFails has the server answer 500 to a repeat that it dropped.
	ReplayFails bool
	// KeyLag is how long after its post a key is stored: so long a repeat is another post.
	KeyLag time.Duration
	// LosesFiles has the server post without its files what names any.
	LosesFiles bool
	// Rewrite changes a text as it is stored, by rules of the server's own; nil: none.
	Rewrite func(text string) string
	// Plan decides what becomes of a request, by its method and path. Nil: Reply.
	Plan func(methodAndPath string) Answer
	// LimitFor is how long RateLimit lasts; zero: 5 minutes.
	LimitFor time.Duration
	// HidesDirect has the server leave direct posts out of the account's list.
	HidesDirect bool
}

// Post is a post that took effect.
type Post struct {
	ID, Text, ReplyTo, Warning, Visibility, Language, Key string
	Sensitive                                             bool
	Created                                               time.Time
	// Boost is another account's post that the account shared.
	Boost bool
	// Files are the files that it shows.
	Files []File
	// Edited is when it got its present text; zero: it has its first one.
	Edited  time.Time
	deleted bool
}

// File is a file that was uploaded.
type File struct {
	ID, Type, Description string
	Size                  int
	asked                 int
}

// Server is one server, which counts requests by method and path. It is safe for concurrent use.
type Server struct {
	loopback.Fake
	opts    Options
	handler http.Handler

	mu    sync.Mutex
	skew  time.Duration
	posts []Post
	keys  map[string]key
	files []File
}

type key struct {
	id          string
	from, until time.Time
}

// New makes a server that does not listen; it serves as an http.Handler.
func New(o Options) *Server {
	if o.Tokens == nil {
		o.Tokens = []string{"first", "second"}
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.PageLimit == 0 {
		o.PageLimit = 40
	}
	if o.MaxCharacters == 0 {
		o.MaxCharacters = 500
	}
	if o.LimitFor == 0 {
		o.LimitFor = 5 * time.Minute
	}
	s := &Server{opts: o, keys: make(map[string]key)}
	s.handler = s.routes()
	return s
}

// Start starts a server on loopback.
func Start(o Options) (*Server, error) {
	s := New(o)
	return s, s.Listen(s)
}

// ServeHTTP serves the API.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.handler.ServeHTTP(w, r) }

// Posts returns the posts that are there, the oldest first.
func (s *Server) Posts() []Post {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []Post
	for _, p := range s.posts {
		if !p.deleted {
			out = append(out, p)
		}
	}
	return out
}

// Add makes a post as a person does by hand, and returns it with its id.
func (s *Server) Add(p Post) Post {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.add(p)
}

// Skew moves the server's clock against all other clocks.
func (s *Server) Skew(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.skew += d
}

// now is the server's clock; the caller holds mu.
func (s *Server) now() time.Time { return s.opts.Now().UTC().Add(s.skew) }

func (s *Server) clock() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.now()
}

// Delete deletes a post. Those that answer it answer nothing then.
func (s *Server) Delete(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range s.posts {
		switch id {
		case s.posts[i].ID:
			s.posts[i].deleted = true
		case s.posts[i].ReplyTo:
			s.posts[i].ReplyTo = ""
		}
	}
}

// Edit replaces a post's text.
func (s *Server) Edit(id, text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range s.posts {
		if s.posts[i].ID == id {
			s.posts[i].Text, s.posts[i].Edited = text, s.now()
		}
	}
}

// add stores a post; the caller holds mu. Ids rise with time, as snowflakes and ULIDs
// do.
func (s *Server) add(p Post) Post {
	if p.Created.IsZero() {
		p.Created = s.now().Truncate(time.Millisecond)
	}
	n := len(s.posts)
	switch s.opts.Software {
	case GoToSocial:
		p.ID = "01K" + pad(n)
	case Pleroma:
		p.ID = "Aa" + pad(n)
	default:
		p.ID = strconv.FormatInt(110000000000000000+int64(n), 10)
	}
	s.posts = append(s.posts, p)
	return p
}

func pad(n int) string {
	digits := strconv.Itoa(n)
	return "00000000000000000000000"[len(digits):] + digits
}

// create stores a post, or drops a repeat; fails reports whether the server answers 500
// then.
func (s *Server) create(p Post) (post Post, fails bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now()
	dedupes := s.opts.Software == Mastodon || s.opts.Software == OldMastodon
	if k, ok := s.keys[p.Key]; ok && dedupes && p.Key != "" && !now.Before(k.from) && now.Before(k.until) {
		for _, old := range s.posts {
			if old.ID == k.id {
				return old, s.opts.ReplayFails
			}
		}
	}
	if dedupes && p.Text == "" { // Mastodon makes the warning the text then
		p.Text, p.Warning = p.Warning, ""
	}
	if s.opts.LosesFiles {
		p.Files = nil
	}
	if s.opts.Rewrite != nil {
		p.Text = s.opts.Rewrite(p.Text)
	}
	p = s.add(p)
	s.keys[p.Key] = key{id: p.ID, from: now.Add(s.opts.KeyLag), until: now.Add(KeyLasts)}
	return p, false
}

// listed returns the account's posts that are listed, older than one, the newest first;
// more reports that there are others.
func (s *Server) listed(before string, limit int) (page []Post, more bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	limit = min(limit, s.opts.PageLimit)
	for i := len(s.posts) - 1; i >= 0; i-- {
		p := s.posts[i]
		switch {
		case p.deleted, before != "" && p.ID >= before, s.now().Before(p.Created.Add(s.opts.ReadLag)):
		case s.opts.HidesDirect && p.Visibility == "direct":
		case len(page) == limit:
			return page, true
		default:
			page = append(page, p)
		}
	}
	return page, false
}
