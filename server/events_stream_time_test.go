package server_test

import (
	"context"
	"errors"
	"io"
	"net"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/fireonce/fireonce/clients/go/fireoncev1"
	"github.com/fireonce/fireonce/clients/go/fireoncev1/fireoncev1grpc"
	"github.com/fireonce/fireonce/server"
)

// pipes is a network inside a test's bubble: nothing of it waits for the outside, so time there
// moves when all goroutines wait.
type pipes struct {
	conns chan net.Conn
	done  chan struct{}
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.done:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error   { close(p.done); return nil }
func (p *pipes) Addr() net.Addr { return &net.IPAddr{IP: net.IPv4(127, 0, 0, 1)} }

func (p *pipes) dial(context.Context, string, string) (net.Conn, error) {
	client, srv := net.Pipe()
	select {
	case p.conns <- srv:
		return client, nil
	case <-p.done:
		return nil, net.ErrClosed
	}
}

// inBubble runs a test with a server whose time is the bubble's, over HTTP/1.1
// and over HTTP/2, whose deadlines differ.
func inBubble(t *testing.T, fn func(t *testing.T, f *fixture), edit ...func(*server.Config)) {
	for name, http2 := range map[string]bool{"HTTP/1.1": false, "HTTP/2": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := prepare(t, edit...)
				p := &pipes{conns: make(chan net.Conn), done: make(chan struct{})}
				f.addr, f.dial = "localhost", p.dial
				f.protocols.SetHTTP1(!http2)
				f.protocols.SetUnencryptedHTTP2(http2)
				f.serve(p)
				fn(t, f)
			})
		})
	}
}

func TestHeartbeats(t *testing.T) {
	inBubble(t, func(t *testing.T, f *fixture) {
		begun := time.Now()
		s := overConnect(f).open(t)
		s.first(t)
		if waited := time.Since(begun); waited != 0 {
			t.Errorf("the first message came after %s", waited)
		}
		for n := 1; n <= 4; n++ {
			e, err := s.next()
			if err != nil || e.GetHeartbeat() == nil {
				t.Fatalf("message %v, %v; want a heartbeat", e, err)
			}
			if waited := time.Since(begun); waited != time.Duration(n)*15*time.Second {
				t.Errorf("heartbeat %d after %s", n, waited)
			}
		}
	})
}

// TestStreamEnds with OK, after the duration that was asked for or 15 minutes,
// less at most a tenth.
func TestStreamEnds(t *testing.T) {
	for name, tt := range map[string]struct {
		asked *durationpb.Duration
		most  time.Duration
	}{
		"as asked":       {durationpb.New(20 * time.Second), 20 * time.Second},
		"after 15 min":   {nil, 15 * time.Minute},
		"after a second": {durationpb.New(time.Second), time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, f *fixture) {
				begun := time.Now()
				s := overConnect(f).open(t, func(r *streamRequest) { r.MaxDuration = tt.asked })
				var err error
				for err == nil {
					_, err = s.next()
				}
				if took := time.Since(begun); !errors.Is(err, io.EOF) || took > tt.most || took < tt.most*9/10 {
					t.Errorf("ended after %s with %v, want OK after %s", took, err, tt.most)
				}
			})
		})
	}
}

// TestSlowReaderIsCutOff: a reader that takes nothing holds a stream for no
// longer than one message may take.
func TestSlowReaderIsCutOff(t *testing.T) {
	inBubble(t, func(t *testing.T, f *fixture) {
		conn, err := f.dial(t.Context(), "", "")
		f.must(err)
		defer conn.Close()
		go func() {
			_, _ = io.WriteString(conn, "POST "+jobsPath+"StreamJobEvents HTTP/1.1\r\nHost: localhost\r\n"+
				"Content-Type: application/connect+json\r\nContent-Length: 7\r\n\r\n\x00\x00\x00\x00\x02{}")
		}()
		synctest.Wait()
		_, err = overConnect(f).open(t).next()
		wantReason(t, err, fireoncev1.ErrorReason_ERROR_REASON_TOO_MANY_STREAMS) // the one that is stuck counts
		<-time.After(11 * time.Second)
		synctest.Wait()
		overConnect(f).open(t).first(t)
	}, func(c *server.Config) { c.Quotas = quotas("streams=1") })
}

// TestSlowReaderOverGRPC: the same, where the reader's flow control is full.
func TestSlowReaderOverGRPC(t *testing.T) {
	f := start(t, func(c *server.Config) { c.Quotas, c.Limits.Write = quotas("streams=1"), 50*time.Millisecond })
	for i := range 300 {
		f.schedule(f.request(strconv.Itoa(i)))
	}
	stuck, err := fireoncev1grpc.NewJobServiceClient(dialGRPC(f, grpc.WithStaticStreamWindowSize(64<<10))).
		StreamJobEvents(t.Context(), &streamRequest{
			Start: &fireoncev1.StreamJobEventsRequest_FromBeginning{FromBeginning: true}, IncludeJob: true,
		})
	f.must(err)
	// On a busy machine this reader may be too slow for its first event already.
	_, early := stuck.Recv()
	c := overConnect(f)
	for { // until the stuck stream is gone, or the test's time
		e, err := c.open(t).next()
		if err == nil && e.GetHeartbeat() != nil {
			break
		}
		wantReason(t, err, fireoncev1.ErrorReason_ERROR_REASON_TOO_MANY_STREAMS)
	}
	for err = early; err == nil; {
		_, err = stuck.Recv()
	}
	if errors.Is(err, io.EOF) || !strings.Contains(err.Error(), "RST_STREAM") {
		t.Errorf("the stuck stream ended with %v, want that it is cut off, because something is missing", err)
	}
}

// TestEventsComeAtOnce: by the store's hint, not only by polling.
func TestEventsComeAtOnce(t *testing.T) {
	inBubble(t, func(t *testing.T, f *fixture) {
		s := overConnect(f).open(t)
		s.first(t)
		begun := time.Now()
		f.schedule(f.request("k"))
		s.changes(t, 1)
		if waited := time.Since(begun); waited > 50*time.Millisecond {
			t.Errorf("the event came after %s", waited)
		}
	})
}

// TestLogsEndsOfStreams: a stream that ended has its line too.
func TestLogsEndsOfStreams(t *testing.T) {
	inBubble(t, func(t *testing.T, f *fixture) {
		s := overConnect(f).open(t, func(r *streamRequest) { r.MaxDuration = durationpb.New(time.Second) })
		for {
			if _, err := s.next(); err != nil {
				break
			}
		}
		synctest.Wait()
		if !strings.Contains(f.logs.String(), "StreamJobEvents") {
			t.Errorf("log: %s", f.logs)
		}
	})
}
