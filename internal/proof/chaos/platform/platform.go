// Package platform is the outer world of the crash campaign: a server with four
// faces whose answers go wrong as planned, and whose log shows what really
// happened. It runs in a process of its own, so that no fault of the servers
// under test reaches its memory; its log is the only judge of duplicates.
//
//   - /hook/keyed/…: a receiver that drops what has a key that it has seen
//     (webhook-id, else Idempotency-Key) and answers it as the first time.
//   - /hook/unlocked/…: the same without a lock: it looks for the key, acts, and then stores it.
//   - /hook/opaque/…: a receiver that acts on each request.
//   - /hook/told/NAME: a receiver of notices, with a lock as the keyed one; the log has what they say.
//   - /feed/ACCOUNT/posts: the API of docs/platforms/feed.md, which knows nothing
//     of keys and lists posts after a lag. Each account is a feed of its own.
//   - sites: platforms with an API of their own, each at an address of its own.
//
// All of it is simulated: behavior that was seen at real platforms (effects
// whose answer is lost, 5xx after the effect, posts that are listed late,
// listings from a cache), made frequent. Simplified are: an effect is there at
// once and whole, or not at all; the keyed receiver forgets only by number, never
// by time, and leaves it to the log to tell bodies apart; the feed's clock is the
// machine's; a refusal is never wrong. The fault of a request is a function of the seed and
// the request alone, so that a seed and the rates describe a run.
package platform

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fireonce/fireonce/internal/proof/loopback"
)

// DefaultKeys is how many keys the keyed receiver remembers at least.
const DefaultKeys = 1 << 20

// Options make a Platform.
type Options struct {
	// Log is the path of the file that is made for the log. Required.
	Log string
	// Seed decides, with Faults, what becomes of each request.
	Seed uint64
	// Faults hold until they are changed.
	Faults Faults
	// Keys is how many keys the keyed receiver remembers; the oldest are forgotten
	// first. Zero means DefaultKeys.
	Keys int
	// Sites are served beside the other faces. They end with the platform.
	Sites []Site
	// Out gets the line "ready: URL"; nil: it is not written.
	Out io.Writer
}

// Totals counts what came and what happened.
type Totals struct {
	// Requests and Effects count by kind of face; looks are not in them.
	Requests map[string]int `json:"requests"`
	Effects  map[string]int `json:"effects"`
	// Repeats are requests that the keyed receiver recognized.
	Repeats int `json:"repeats"`
	Looks   int `json:"looks"`
	// Faults counts those of requests, LookFaults those of looks.
	Faults     map[Fault]int `json:"faults"`
	LookFaults map[Fault]int `json:"look_faults"`
	// Torn requests ended before they were whole; they had no effect.
	Torn int `json:"torn"`
	// Pending requests were taken and have not acted yet. Before this is zero, the
	// log is no verdict.
	Pending int `json:"pending"`
	// Forgotten keys were dropped for others; a repeat of one takes effect again.
	Forgotten int `json:"forgotten"`
}

// Platform serves on a loopback port. It is safe for concurrent use.
type Platform struct {
	opts   Options
	server *loopback.Server
	log    *log
	keys   *memory
	faults atomic.Pointer[Faults]
	done   chan struct{}
	once   sync.Once
	late   sync.WaitGroup // effects that are still to come, after their request
	sites  []*site

	mu       sync.Mutex
	totals   Totals
	n        int64          // requests and looks
	requests map[uint64]int // by hash of face and subject
	accounts map[string]*account
	notices  map[string]bool // received at FaceTold, by key and digest
}

// Run serves until ctx ends, and closes the log. It ends early if the log cannot
// be written: nothing that happens after that could be judged.
func Run(ctx context.Context, opts Options) error {
	p, err := Start(opts) //nolint:contextcheck // a listener on loopback is there immediately
	if err != nil {
		return err
	}
	if opts.Out != nil {
		if _, err := fmt.Fprintf(opts.Out, "%s%s\n", readyPrefix, p.URL()); err != nil {
			_ = p.Close()
			return err
		}
	}
	select {
	case <-ctx.Done():
	case <-p.log.broken:
	}
	return p.Close()
}

// Start makes a platform and serves.
func Start(opts Options) (*Platform, error) {
	if err := opts.Faults.Check(); err != nil {
		return nil, err
	}
	if opts.Keys <= 0 {
		opts.Keys = DefaultKeys
	}
	p := &Platform{
		opts: opts, keys: newMemory(opts.Keys), done: make(chan struct{}),
		totals: Totals{
			Requests: make(map[string]int), Effects: make(map[string]int),
			Faults: make(map[Fault]int), LookFaults: make(map[Fault]int),
		},
		requests: make(map[uint64]int), accounts: make(map[string]*account), notices: make(map[string]bool),
	}
	p.faults.Store(&opts.Faults)
	var err error
	if p.log, err = createLog(opts.Log); err != nil {
		return nil, err
	}
	if p.server, err = loopback.Listen(); err != nil {
		_ = p.log.close()
		return nil, err
	}
	mux := http.NewServeMux()
	if err = p.host(opts.Sites); err != nil {
		_ = p.log.close()
		return nil, errors.Join(err, p.endSites(), p.server.Close())
	}
	mux.HandleFunc("POST /hook/keyed/", p.hook(FaceKeyed))
	mux.HandleFunc("POST /hook/unlocked/", p.hook(FaceUnlocked))
	mux.HandleFunc("POST /hook/opaque/", p.hook(FaceOpaque))
	mux.HandleFunc("POST "+toldPath+"{name}", p.told)
	mux.HandleFunc("POST /feed/{account}/posts", p.post)
	mux.HandleFunc("GET /feed/{account}/posts", p.look)
	p.control(mux)
	p.server.Serve(mux)
	return p, nil
}

// Close ends the platform. What was to act later does not any more. Safe to call
// twice; only the first call reports whether the log is whole.
func (p *Platform) Close() error {
	var err error
	p.once.Do(func() {
		close(p.done)
		err = errors.Join(p.server.Close(), p.endSites())
		p.late.Wait()
		if e := p.log.close(); e != nil {
			err = e
		}
	})
	return err
}

// URL is the platform's base URL.
func (p *Platform) URL() string { return p.server.URL() }

// KeyedURL is where the keyed receiver gets requests. The subject is that of the
// body, a JSON object with "subject"; else the rest of the path.
func (p *Platform) KeyedURL() string { return p.URL() + "/hook/keyed/" }

// UnlockedURL is the same for the receiver that has keys and no lock.
func (p *Platform) UnlockedURL() string { return p.URL() + "/hook/unlocked/" }

// OpaqueURL is the same for the receiver that does not know keys.
func (p *Platform) OpaqueURL() string { return p.URL() + "/hook/opaque/" }

// FeedURL is the base URL of an account's feed.
func (p *Platform) FeedURL(account string) string { return p.URL() + "/feed/" + account }

// SetFaults changes what goes wrong from now on.
func (p *Platform) SetFaults(f Faults) error {
	if err := f.Check(); err != nil {
		return err
	}
	p.faults.Store(&f)
	return nil
}

// Totals counts everything so far.
func (p *Platform) Totals() Totals {
	p.mu.Lock()
	defer p.mu.Unlock()
	t := p.totals
	t.Requests, t.Effects = copied(t.Requests), copied(t.Effects)
	t.Faults, t.LookFaults = copied(t.Faults), copied(t.LookFaults)
	return t
}

// call is one request, and what becomes of it.
type call struct {
	Record
	faults *Faults
	seed   uint64
	words  map[Fault]Words // how the site refuses; nil: as all sites here do
}

// draw returns a number in [0, 1) of this request's own.
func (c call) draw(what uint64) float64 { return draw(c.seed, c.Face, c.Subject, c.Number, what) }

// share returns a part of a longest time, drawn for this request.
func (c call) share(longest Duration, what uint64) time.Duration {
	return time.Duration(float64(longest) * c.draw(what))
}

// receive numbers a request or look, decides what becomes of it and logs it.
func (p *Platform) receive(r Record) call {
	return p.receiveAs(r, func(f *Faults, at float64) Fault {
		if r.Type == TypeLook {
			return f.Looks.pick(LookKinds, at)
		}
		return f.of(r.Face).pick(Kinds, at)
	})
}

// receiveAs is receive with another rule for what becomes of it.
func (p *Platform) receiveAs(r Record, rule func(f *Faults, at float64) Fault) call {
	c := call{Record: r, faults: p.faults.Load(), seed: p.opts.Seed}
	subject := uint64(draw(0, r.Face, r.Subject, 0, 0) * math.MaxUint64) // two subjects in one place would only share their numbers
	p.mu.Lock()
	defer p.mu.Unlock()
	p.n++
	p.requests[subject]++
	c.N, c.Number, c.Time = p.n, p.requests[subject], time.Now().UTC()
	c.Fault = rule(c.faults, c.draw(drawFault))
	if r.Type == TypeLook {
		p.totals.Looks++
		count(p.totals.LookFaults, c.Fault)
	} else {
		p.totals.Requests[KindOf(r.Face)]++
		p.totals.Pending++
		count(p.totals.Faults, c.Fault)
	}
	p.log.append(c.Record)
	return c
}

// unstale takes back that a look was answered from a cache: there was nothing in it
// that is old enough.
func (p *Platform) unstale() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.totals.LookFaults[Stale]--
}

// took logs an effect of a request; id is its name.
func (p *Platform) took(c call, id string) (ticket uint64) {
	r := c.Record
	r.Type, r.Time, r.ID, r.Content = TypeEffect, time.Now().UTC(), id, ""
	p.mu.Lock()
	p.totals.Effects[KindOf(r.Face)]++
	p.mu.Unlock()
	return p.log.append(r)
}

// acted notes that a request has acted, or never will.
func (p *Platform) acted() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.totals.Pending--
}

// pause waits, and reports whether the platform is still there.
func (p *Platform) pause(d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-p.done:
		return false
	}
}

func count(m map[Fault]int, f Fault) {
	if f != None {
		m[f]++
	}
}

func copied[K comparable](m map[K]int) map[K]int {
	out := make(map[K]int, len(m))
	for k, n := range m {
		out[k] = n
	}
	return out
}
