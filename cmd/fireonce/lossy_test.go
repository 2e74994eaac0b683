package main

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"testing"

	"google.golang.org/protobuf/proto"
)

// fate is what happens to the answer to a call.
type fate int

const (
	// deliver passes the answer on.
	deliver fate = iota
	// cut closes the client's connection when the server has answered.
	cut
	// withhold holds back the server's answer until the client stops waiting.
	withhold
)

// lossy is a proxy between clients and a server that loses answers: every call reaches
// the server. It supports HTTP/1.1 and HTTP/2 without TLS.
type lossy struct {
	url   string
	plan  func(procedure string, number int) fate // number counts a procedure's calls, from 1
	proxy *httputil.ReverseProxy

	mu    sync.Mutex
	calls map[string][][]byte // by procedure: the requests' messages
	grew  chan struct{}       // closed and replaced with each call
}

// startLossy starts a lossy proxy of a server.
func startLossy(tb testing.TB, server string, plan func(string, int) fate) *lossy {
	tb.Helper()
	target, err := url.Parse(server)
	if err != nil {
		tb.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	upstream := &http.Transport{Protocols: new(http.Protocols)}
	upstream.Protocols.SetUnencryptedHTTP2(true)
	l := &lossy{
		url: "http://" + listener.Addr().String(), plan: plan,
		calls: make(map[string][][]byte), grew: make(chan struct{}),
		proxy: &httputil.ReverseProxy{
			Rewrite:       func(r *httputil.ProxyRequest) { r.SetURL(target) },
			Transport:     upstream,
			FlushInterval: -1,
			ErrorLog:      log.New(io.Discard, "", 0),
			ErrorHandler: func(w http.ResponseWriter, _ *http.Request, _ error) {
				w.WriteHeader(http.StatusServiceUnavailable)
			},
		},
	}
	s := &http.Server{
		Handler: l, Protocols: new(http.Protocols),
		ConnContext: func(ctx context.Context, c net.Conn) context.Context {
			return context.WithValue(ctx, connKey{}, c)
		},
	}
	s.Protocols.SetHTTP1(true)
	s.Protocols.SetUnencryptedHTTP2(true)
	go func() { _ = s.Serve(listener) }()
	tb.Cleanup(func() {
		s.Close()
		upstream.CloseIdleConnections()
	})
	return l
}

type connKey struct{}

func (l *lossy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(io.LimitReader(r.Body, 1<<20))
	if err != nil {
		return // an incomplete request
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	switch l.plan(r.URL.Path, l.record(r, body)) {
	case deliver:
		l.proxy.ServeHTTP(w, r)
	case cut:
		l.swallow(r)
		conn := r.Context().Value(connKey{}).(net.Conn)
		_ = conn.(*net.TCPConn).SetLinger(0)
		_ = conn.Close()
		panic(http.ErrAbortHandler)
	case withhold:
		l.swallow(r)
		<-r.Context().Done()
		panic(http.ErrAbortHandler)
	}
}

// swallow makes a call and drops its answer.
func (l *lossy) swallow(r *http.Request) {
	// The call must reach the server even if the client stops waiting.
	l.proxy.ServeHTTP(nowhere{make(http.Header)}, r.WithContext(context.WithoutCancel(r.Context())))
}

// nowhere discards an answer.
type nowhere struct{ header http.Header }

func (n nowhere) Header() http.Header         { return n.header }
func (n nowhere) Write(b []byte) (int, error) { return len(b), nil }
func (n nowhere) WriteHeader(int)             {}
func (n nowhere) Flush()                      {}

// record records a call and returns its number.
func (l *lossy) record(r *http.Request, body []byte) int {
	kind := r.Header.Get("Content-Type")
	if strings.HasPrefix(kind, "application/grpc") || strings.HasPrefix(kind, "application/connect+") {
		// One message in a frame: a byte of flags, four of length.
		if len(body) >= 5 && body[0] == 0 && int(binary.BigEndian.Uint32(body[1:5])) == len(body)-5 {
			body = body[5:]
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.calls[r.URL.Path] = append(l.calls[r.URL.Path], body)
	close(l.grew)
	l.grew = make(chan struct{})
	return len(l.calls[r.URL.Path])
}

// awaits waits until a procedure was called as often as that.
func (l *lossy) awaits(ctx context.Context, procedure string, calls int) error {
	for {
		l.mu.Lock()
		n, grew := len(l.calls[procedure]), l.grew
		l.mu.Unlock()
		if n >= calls {
			return nil
		}
		select {
		case <-grew:
		case <-ctx.Done():
			return fmt.Errorf("%d calls of %s: %w", n, procedure, ctx.Err())
		}
	}
}

// requests returns the messages of a procedure's calls.
func requests[M proto.Message](tb testing.TB, l *lossy, procedure string, empty func() M) []M {
	tb.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	var out []M
	for _, body := range l.calls[procedure] {
		m := empty()
		if err := proto.Unmarshal(body, m); err != nil {
			tb.Fatalf("%s: %v", procedure, err)
		}
		out = append(out, m)
	}
	return out
}
