// Package hostile makes requests that cost a server more than they cost their sender.
//
// The requests are derived from the contract: each list, map, part, text and number of
// each RPC is filled up to the size that the server reads, in each encoding and on each
// way in. Beside them are requests that any server must survive: compressed nothing,
// nests, floods of headers, frames that say more than they hold. A test sends them, and
// watches the memory of the server. Nothing here is random: the cases of one contract are
// the same each time.
package hostile

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"iter"
	"net/http"
	"strings"
	"time"
)

// Listener is the port that a case goes to.
type Listener int

const (
	// API is the port that speaks Connect, gRPC and gRPC-Web, and serves pages.
	API Listener = iota
	// Native is the port that speaks gRPC alone.
	Native
)

// Key is the API key that a case comes with.
type Key int

const (
	// NoKey is none at all.
	NoKey Key = iota
	// WrongKey is a key that the server does not know.
	WrongKey
	// ReadKey may call what changes nothing.
	ReadKey
	// WriteKey may call everything in its project.
	WriteKey
)

// String names the key.
func (k Key) String() string { return [...]string{"no key", "wrong key", "read key", "write key"}[k] }

// Sizes are the limits of the server that is attacked, in bytes of a decoded request.
type Sizes struct {
	// Request is the limit of a request, Batch that of BatchScheduleJobs.
	Request, Batch int
}

// Case is one request.
type Case struct {
	// Name is what the request is, and by which way it comes.
	Name     string
	Listener Listener
	Key      Key
	// HTTP2 is set if only HTTP/2 can carry the request.
	HTTP2 bool
	// Limit is the decoded size that the server may read of the request, or of one that may cost as much.
	Limit int

	// stream is set if the answer to a lawful request goes on.
	stream       bool
	method, path string
	header       http.Header
	body         func() []byte // nil: none
}

// Request makes the request for a server at base, e.g. "http://127.0.0.1:8080". key is
// the API key that goes with it; empty: none.
func (c Case) Request(ctx context.Context, base, key string) (*http.Request, error) {
	var body io.Reader
	if made := c.Body(); made != nil {
		body = bytes.NewReader(made)
	}
	r, err := http.NewRequestWithContext(ctx, c.method, base+c.path, body)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", c.Name, err)
	}
	for name, values := range c.header {
		r.Header[name] = values
	}
	if key != "" {
		r.Header.Set("Authorization", "Bearer "+key)
	}
	return r, nil
}

// Body makes the body; nil: the request has none.
func (c Case) Body() []byte {
	if c.body == nil {
		return nil
	}
	return c.body()
}

// Made returns the case with a body that is made already, so that sending it
// can be measured.
func (c Case) Made(body []byte) Case {
	if body != nil {
		c.body = func() []byte { return body }
	}
	return c
}

// Cases yields all requests for a server of the given limits.
func Cases(sizes Sizes) iter.Seq[Case] {
	return func(yield func(Case) bool) {
		for _, part := range []iter.Seq[Case]{contractCases(sizes), serviceCases(sizes), pageCases(sizes)} {
			for c := range part {
				if !yield(c) {
					return
				}
			}
		}
	}
}

// Count returns how many cases there are.
func Count(sizes Sizes) (n int) {
	for range Cases(sizes) {
		n++
	}
	return n
}

// streamFor is how long a stream is read that the server serves.
const streamFor = 5 * time.Second

// Sender sends cases.
type Sender struct {
	bases        map[Listener]string
	keys         map[Key]string
	plain, http2 *http.Client
}

// NewSender makes a sender for the listeners at the given addresses (HOST:PORT). Cases for
// a listener without an address are not sent. keys are the API keys to use; a key that is
// missing is not sent.
func NewSender(addresses map[Listener]string, keys map[Key]string) *Sender {
	s := &Sender{bases: make(map[Listener]string), keys: keys}
	for l, address := range addresses {
		s.bases[l] = "http://" + address
	}
	client := func(use func(*http.Protocols)) *http.Client {
		protocols := new(http.Protocols)
		use(protocols)
		return &http.Client{Transport: &http.Transport{
			Protocols: protocols, DisableCompression: true, MaxIdleConnsPerHost: 16,
		}}
	}
	s.plain = client(func(p *http.Protocols) { p.SetHTTP1(true) })
	s.http2 = client(func(p *http.Protocols) { p.SetUnencryptedHTTP2(true) })
	return s
}

// Answer is what came back.
type Answer struct {
	// Status is that of HTTP; Code is grpc-status where there was one.
	Status int
	Code   string
	// Size is the size of the body.
	Size int64
}

// Send sends a case and reads the answer. An error is no finding: a server may close the
// connection.
func (s *Sender) Send(ctx context.Context, c Case) (Answer, error) {
	base, ok := s.bases[c.Listener]
	if !ok {
		return Answer{}, nil
	}
	if c.stream {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, streamFor)
		defer cancel()
	}
	r, err := c.Request(ctx, base, s.keys[c.Key])
	if err != nil {
		return Answer{}, err
	}
	client := s.plain
	if c.HTTP2 || c.Listener == Native {
		client = s.http2
	}
	res, err := client.Do(r)
	if err != nil {
		return Answer{}, fmt.Errorf("%s: %w", c.Name, err)
	}
	defer func() { _ = res.Body.Close() }()
	size, err := io.Copy(io.Discard, res.Body)
	out := Answer{Status: res.StatusCode, Code: res.Header.Get("Grpc-Status"), Size: size}
	if out.Code == "" {
		out.Code = res.Trailer.Get("Grpc-Status")
	}
	if err != nil {
		return out, fmt.Errorf("%s: %w", c.Name, err)
	}
	return out, nil
}

// Close closes idle connections.
func (s *Sender) Close() {
	s.plain.CloseIdleConnections()
	s.http2.CloseIdleConnections()
}

// zipped compresses data.
func zipped(data []byte) []byte {
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	_, _ = w.Write(data) // to memory: cannot fail
	_ = w.Close()
	return out.Bytes()
}

// bomb is size zero bytes, compressed.
func bomb(size int) []byte {
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	zeros := make([]byte, 64<<10)
	for ; size > 0; size -= len(zeros) {
		_, _ = w.Write(zeros[:min(size, len(zeros))]) // to memory: cannot fail
	}
	_ = w.Close()
	return out.Bytes()
}

// repeat fills a size with a unit.
func repeat(unit []byte, size int) []byte {
	return bytes.Repeat(unit, max(1, size/len(unit)))
}

// list writes units between brackets, up to a size.
func list(open, unit, last string, size int) string {
	n := max(0, (size-len(open)-2*len(last)-len(unit))/(len(unit)+1))
	return open + strings.Repeat(unit+",", n) + unit + last
}
