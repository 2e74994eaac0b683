// Package faultproxy stands between a connector and a platform, a real one or a
// simulated one, and does to their requests what networks do: it loses them before
// they arrive, or their answers afterwards. It is for tests.
package faultproxy

import (
	"bytes"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"sync"
	"time"

	"github.com/fireonce/fireonce/internal/proof/loopback"
)

// maxBody bounds what is passed on of a request or an answer, in bytes.
const maxBody = 64 << 20

// Fault is what happens to a request.
type Fault int

const (
	// Pass hands the request on and its answer back.
	Pass Fault = iota
	// DropBefore loses the request: the connection is reset, and the platform never
	// sees it.
	DropBefore
	// DropAfter hands the request on, waits for the platform's answer, and resets the
	// connection instead of handing it back.
	DropAfter
	// FailAfter hands the request on and answers 502 in the platform's place.
	FailAfter
	// SilentAfter hands the request on and answers nothing, until the client has
	// given up.
	SilentAfter
	// TruncateAfter hands the request on and cuts its answer off in mid-body.
	TruncateAfter
	// Refuse answers in the platform's place, which never sees the request.
	Refuse
)

// String names the fault.
func (f Fault) String() string {
	return [...]string{"pass", "drop before", "drop after", "502 after", "silent after", "truncate after", "refuse"}[f]
}

// Fate is what a plan decides about one request.
type Fate struct {
	Fault
	// Status, Header and Body are Refuse's answer.
	Status int
	Header http.Header
	Body   string
}

// Request is what a plan is asked about.
type Request struct {
	Method, Path string
	Query        url.Values
	Header       http.Header
	Body         []byte
	// Number counts the requests of this method and path, from 1.
	Number int
}

// Plan decides about each request, one at a time.
type Plan func(Request) Fate

// Proxy is one proxy before one platform.
type Proxy struct {
	server *loopback.Server
	target *url.URL
	client *http.Transport

	mu        sync.Mutex
	plan      Plan
	numbers   map[string]int
	delivered map[Fault]int
}

// Start runs a proxy before the platform at target, e.g. "http://127.0.0.1:3000".
// A nil plan passes everything.
func Start(target string, plan Plan) (*Proxy, error) {
	to, err := url.Parse(target)
	if err != nil {
		return nil, fmt.Errorf("fault proxy: %w", err)
	}
	server, err := loopback.Listen()
	if err != nil {
		return nil, fmt.Errorf("fault proxy: %w", err)
	}
	p := &Proxy{
		server: server, target: to, plan: plan, numbers: map[string]int{}, delivered: map[Fault]int{},
		// A connection is used once: a transport sends again what it takes for lost on
		// one that it used before, and every request here is to arrive at most once.
		client: &http.Transport{DisableKeepAlives: true, DisableCompression: true},
	}
	server.Serve(http.HandlerFunc(p.serve))
	return p, nil
}

// URL is the proxy's base URL, without a slash at its end.
func (p *Proxy) URL() string { return p.server.URL() }

// Plan replaces the plan; nil passes everything.
func (p *Proxy) Plan(plan Plan) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.plan = plan
}

// Delivered counts what happened to requests so far.
func (p *Proxy) Delivered() map[Fault]int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return maps.Clone(p.delivered)
}

// Close ends the proxy and every connection. Safe to call twice.
func (p *Proxy) Close() error { return p.server.Close() }

func (p *Proxy) serve(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if err != nil {
		loopback.Reset(w)
		return
	}
	fate := p.decide(r, body)
	if fate.Fault == DropBefore {
		loopback.Reset(w)
		return
	}
	if fate.Fault == Refuse {
		answer{status: fate.Status, header: fate.Header, body: []byte(fate.Body)}.write(w)
		return
	}
	gone, stop := p.server.Gone(r)
	defer stop()
	got, err := p.forward(r, body)
	if err != nil {
		w.WriteHeader(http.StatusBadGateway)
		return
	}
	switch fate.Fault {
	case DropAfter:
		loopback.Reset(w)
	case FailAfter:
		w.WriteHeader(http.StatusBadGateway)
	case SilentAfter:
		<-gone
	case TruncateAfter:
		got.header.Set("Content-Length", fmt.Sprint(len(got.body)+1))
		got.body = got.body[:len(got.body)/2]
		got.write(w)
		_ = http.NewResponseController(w).Flush()
		loopback.Reset(w)
	default:
		got.write(w)
	}
}

// answer is what a platform said, or what is said in its place.
type answer struct {
	status int
	header http.Header
	body   []byte
}

func (a answer) write(w http.ResponseWriter) {
	maps.Copy(w.Header(), a.header)
	w.WriteHeader(a.status)
	_, _ = w.Write(a.body)
}

func (p *Proxy) decide(r *http.Request, body []byte) Fate {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.numbers[r.Method+" "+r.URL.Path]++
	var fate Fate
	if p.plan != nil {
		fate = p.plan(Request{
			Method: r.Method, Path: r.URL.Path, Query: r.URL.Query(), Header: r.Header, Body: body,
			Number: p.numbers[r.Method+" "+r.URL.Path],
		})
	}
	p.delivered[fate.Fault]++
	return fate
}

// forward makes the request to the platform, whatever becomes of the client
// meanwhile, and reads the whole answer.
func (p *Proxy) forward(r *http.Request, body []byte) (answer, error) {
	to := *p.target
	to.Path, to.RawQuery = p.target.Path+r.URL.Path, r.URL.RawQuery
	to.RawPath = ""
	if r.URL.RawPath != "" {
		to.RawPath = p.target.EscapedPath() + r.URL.RawPath
	}
	// A request has arrived or it has not: what a client does meanwhile takes none back.
	req, err := http.NewRequest(r.Method, to.String(), bytes.NewReader(body)) //nolint:noctx // as said above
	if err != nil {
		return answer{}, err
	}
	req.GetBody = nil
	req.Header = r.Header.Clone()
	req.Header.Del("Connection")
	if len(body) == 0 {
		req.Body = http.NoBody
	}
	resp, err := p.client.RoundTrip(req)
	if err != nil {
		return answer{}, err
	}
	defer func() { _ = resp.Body.Close() }()
	got, err := io.ReadAll(io.LimitReader(resp.Body, maxBody))
	for _, own := range []string{"Connection", "Content-Length", "Transfer-Encoding"} {
		resp.Header.Del(own)
	}
	return answer{status: resp.StatusCode, header: resp.Header, body: got}, err
}

// On is a plan for requests whose method and path these are: the fates in turn, the
// last for all that come after them, and Pass for every other request.
func On(method, path string, fates ...Fate) Plan {
	n := 0
	return func(r Request) Fate {
		if r.Method != method || r.Path != path || len(fates) == 0 {
			return Fate{}
		}
		n++
		return fates[min(n, len(fates))-1]
	}
}

// RetryAfter is a refusal with 429 and Retry-After.
func RetryAfter(wait time.Duration) Fate {
	return Fate{Fault: Refuse, Status: http.StatusTooManyRequests, Header: http.Header{
		"Retry-After": {fmt.Sprint(int(wait.Seconds()))},
	}}
}
