package platform

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"sync"
	"time"

	"github.com/fireonce/fireonce/internal/proof/loopback"
)

// Site is a platform with an API of its own, simulated or real, in front of which
// requests and answers go wrong as those of the other faces do. What it has made, it
// says itself.
type Site struct {
	// Name is its face, and that of its rates in Faults.Faces.
	Name string
	// URL is where it listens. Its clients go to an address before it.
	URL string
	// At is called with the URL that its clients use; nil: it does not need it. Here are videos beside its
	// API, by path, which nothing happens to.
	At   func(address string)
	Here map[string][]byte
	// Attach is for a site that does not speak HTTP, instead of URL: ask returns what goes
	// wrong with a request, after having waited as long as that takes. Address is where
	// its clients go.
	Attach  func(ask func(subject string) Fault)
	Address string
	// Sort decides what a request is for.
	Sort func(Request) Purpose
	// Allowed reports whether a request's credential is valid; nil: every one is.
	Allowed func(Request) bool
	// Heard is called with the site's own answers to requests; nil: it is not.
	Heard func(r Request, answer []byte)
	// Credential is valid at the beginning. Revoke makes the one that it returns the only
	// valid one.
	Credential Credential
	Revoke     func(ctx context.Context) (Credential, error)
	// Words are how the site refuses without acting: Unauthorized, RateLimit, Refuse.
	Words map[Fault]Words
	// Made lists everything that the site has made and who posted it wanted.
	Made func(ctx context.Context) ([]Made, error)
	// Slow is set if asking takes long: it is done once, in the end.
	Slow bool
	// Close ends it; nil: nothing does.
	Close func() error
}

// Request is what a Site is asked about.
type Request struct {
	Method, Path string
	Query        url.Values
	Header       http.Header
	Body         []byte
}

// Purpose is what a request is for.
type Purpose struct {
	// Subject is what the request makes happen; empty: it makes nothing happen.
	Subject string
	// Key is the idempotency key that it has.
	Key string
	// Prepares is set if it begins something that is not visible yet. Such a request has
	// the rates of those that make something happen.
	Prepares bool
}

// Words are an answer.
type Words struct {
	Status int
	Header map[string]string
	Body   string
	// Reset names a header for the Unix second at which a limit ends.
	Reset string
}

// Credential is what a client of a site needs: a token, or a name and a password.
type Credential struct {
	Token    string `json:"token,omitempty"`
	User     string `json:"user,omitempty"`
	Password string `json:"password,omitempty"`
}

// Place is where a site's clients go, and with what.
type Place struct {
	Address    string     `json:"address"`
	Credential Credential `json:"credential"`
}

// Made is one thing that a site has made.
type Made struct{ Subject, ID string }

// site is a Site at work.
type site struct {
	Site
	front *loopback.Server

	mu    sync.Mutex // one request at a time makes something
	known map[string]bool
}

// host starts the sites.
func (p *Platform) host(list []Site) error {
	for _, one := range list {
		s := &site{Site: one, known: make(map[string]bool)}
		p.sites = append(p.sites, s)
		if one.Attach != nil {
			one.Attach(func(subject string) Fault { return p.asked(s, subject) })
			continue
		}
		var err error
		if s.front, err = loopback.Listen(); err != nil {
			return err
		}
		s.Address = s.front.URL()
		if one.At != nil {
			one.At(s.Address)
		}
		s.front.Serve(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { p.visit(s, w, r) }))
	}
	return nil
}

// endSites ends the sites and whatever stands before them.
func (p *Platform) endSites() error {
	var errs []error
	for _, s := range p.sites {
		errs = append(errs, s.front.Close())
		if s.Close != nil {
			errs = append(errs, s.Close())
		}
	}
	return errors.Join(errs...)
}

// visit serves one request to a site.
func (p *Platform) visit(s *site, w http.ResponseWriter, r *http.Request) {
	if file, ok := s.Here[r.URL.Path]; ok {
		w.Header().Set("Content-Type", "video/mp4")
		_, _ = w.Write(file) // a client that is gone is no news
		return
	}
	body, ok := p.body(r)
	if !ok {
		return
	}
	req := Request{Method: r.Method, Path: r.URL.Path, Query: r.URL.Query(), Header: r.Header, Body: body}
	purpose := s.Sort(req)
	record := Record{Type: TypeRequest, Face: s.Name, Subject: purpose.Subject, Key: purpose.Key}
	if purpose.Subject == "" {
		record.Type = TypeLook
	}
	c := p.receiveAs(record, func(f *Faults, at float64) Fault {
		switch {
		case s.Allowed != nil && !s.Allowed(req):
			return Unauthorized
		case record.Type == TypeLook && !purpose.Prepares:
			if fault := f.Looks.pick(LookKinds, at); fault != Stale {
				return fault
			}
			return None
		default:
			return f.of(s.Name).pick(Kinds, at)
		}
	})
	c.words = s.Words
	act := func() (answer, uint64) { return p.pass(s, r, req, c) }
	if record.Type == TypeRequest {
		p.carryOut(w, r, c, act)
		return
	}
	if !c.Fault.Commits() {
		p.refuse(w, c)
		return
	}
	got, ticket := act()
	if c.Fault == Delay && !p.pause(c.share(c.faults.Delay, drawTime)) {
		loopback.Reset(w)
		return
	}
	p.tell(w, r, c, got, ticket)
}

// pass hands a request on, whatever becomes of its client meanwhile, and logs what
// it has made.
func (p *Platform) pass(s *site, r *http.Request, req Request, c call) (answer, uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	got, err := forward(s.URL, r, req.Body)
	if err != nil {
		return failed(http.StatusBadGateway, err.Error()), p.log.last()
	}
	if s.Heard != nil {
		s.Heard(req, got.body)
	}
	if c.Type == TypeRequest && !s.Slow {
		if err := p.count(context.WithoutCancel(r.Context()), s, c); err != nil {
			return failed(http.StatusBadGateway, err.Error()), p.log.last()
		}
	}
	return got, p.log.last()
}

// count logs what a site has made since it was asked last; the caller holds mu.
func (p *Platform) count(ctx context.Context, s *site, c call) error {
	all, err := s.Made(ctx)
	if err != nil {
		return fmt.Errorf("what %s has made: %w", s.Name, err)
	}
	for _, m := range all {
		if s.known[m.ID] {
			continue
		}
		s.known[m.ID] = true
		by := c
		by.Subject, by.Key = m.Subject, ""
		p.took(by, m.ID)
	}
	return nil
}

// Sweep logs what sites have made and no request has asked for yet.
func (p *Platform) Sweep(ctx context.Context) error {
	var errs []error
	for _, s := range p.sites {
		s.mu.Lock()
		errs = append(errs, p.count(ctx, s, call{Record: Record{Face: s.Name}}))
		s.mu.Unlock()
	}
	return errors.Join(errs...)
}

// Revoke makes another credential of a site the only valid one.
func (p *Platform) Revoke(ctx context.Context, name string) (Credential, error) {
	for _, s := range p.sites {
		if s.Name == name && s.Site.Revoke != nil {
			s.mu.Lock()
			defer s.mu.Unlock()
			return s.Site.Revoke(ctx)
		}
	}
	return Credential{}, fmt.Errorf("no site %q whose credential could be revoked", name)
}

// asked returns what goes wrong with a request that did not come over HTTP.
func (p *Platform) asked(s *site, subject string) Fault {
	c := p.receive(Record{Type: TypeRequest, Face: s.Name, Subject: subject})
	defer p.acted()
	if c.Fault == Delay {
		p.pause(c.share(c.faults.Delay, drawTime))
	}
	return c.Fault
}

// once is used for one request each: a transport sends again what it takes for lost
// on a connection that it used before.
var once = &http.Transport{DisableKeepAlives: true, DisableCompression: true}

// forward asks a site itself, and reads the whole answer.
func forward(base string, r *http.Request, body []byte) (answer, error) {
	req, err := http.NewRequest(r.Method, base+r.URL.RequestURI(), bytes.NewReader(body)) //nolint:noctx,gosec // it has arrived, whatever its client does; the site is our own
	if err != nil {
		return answer{}, err
	}
	req.GetBody, req.Header = nil, r.Header.Clone()
	req.Header.Del("Connection")
	req.Host = r.Host // links in answers lead back here
	if len(body) == 0 {
		req.Body = http.NoBody
	}
	resp, err := once.RoundTrip(req)
	if err != nil {
		return answer{}, err
	}
	defer func() { _ = resp.Body.Close() }()
	got := answer{status: resp.StatusCode, header: make(map[string]string)}
	got.body, err = io.ReadAll(resp.Body)
	for name := range resp.Header {
		switch name {
		case "Connection", "Content-Length", "Content-Type", "Transfer-Encoding":
		default:
			got.header[name] = resp.Header.Get(name)
		}
	}
	return got, err
}

// answer returns the words as they are sent now.
func (w Words) answer(after time.Duration) answer {
	a := answer{status: w.Status, header: make(map[string]string), body: []byte(w.Body)}
	for name, value := range w.Header {
		a.header[name] = value
	}
	if w.Reset != "" {
		a.header[w.Reset] = strconv.FormatInt(time.Now().Add(after).Unix()+1, 10)
	}
	return a
}
