package transport_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/fireonce/fireonce/internal/connector/connectortest"
	"github.com/fireonce/fireonce/internal/connector/transport"
	"github.com/fireonce/fireonce/internal/job"
)

func TestMain(m *testing.M) {
	if connectortest.Receive() {
		return
	}
	os.Exit(m.Run())
}

// BenchmarkExchange is one exchange over loopback, its connection's opening included:
// on a connection from the pool, and on a fresh one.
func BenchmarkExchange(b *testing.B) {
	for _, secure := range []bool{false, true} {
		for _, fresh := range []bool{false, true} {
			b.Run(fmt.Sprintf("tls=%v/fresh=%v", secure, fresh), func(b *testing.B) {
				p := connectortest.NewPlatform(b, secure)
				s, to, body := p.Sender(), target(b, p.URL()), make([]byte, 1<<10)
				b.ReportAllocs()
				for b.Loop() {
					l, err := s.Open(b.Context(), to, fresh)
					if err != nil {
						b.Fatal(err)
					}
					if o := judge(l.Exchange(post(b, p.URL(), body), bounds(30*time.Second))); o.Result != job.ResultSucceeded {
						b.Fatal(o.Message)
					}
				}
			})
		}
	}
}

// benchSenders are how many requests are in flight concurrently, as in an engine.
const benchSenders = 64

// BenchmarkPost is one POST of 600 bytes to a receiver in a process of its own, with as
// many in flight as an engine has senders: through a kept connection, through a fresh
// one, and for comparison through net/http's client. cpu-µs/op is what this process
// spent, in user and system time.
func BenchmarkPost(b *testing.B) {
	url, body := connectortest.StartReceiver(b), bytes.Repeat([]byte("x"), 600)
	s := transport.NewSender(transport.Config{Egress: transport.NewEgress(netip.MustParsePrefix("127.0.0.0/8"))})
	b.Cleanup(s.Close)
	to := target(b, url)
	for name, fresh := range map[string]bool{"kept": false, "fresh": true} {
		b.Run(name, func(b *testing.B) {
			call := post(b, url, nil)
			many(b, func() error {
				l, err := s.Open(context.Background(), to, fresh)
				if err != nil {
					return err
				}
				c := call
				c.Body, c.Length = bytes.NewReader(body), int64(len(body))
				if a := l.Exchange(c, bounds(30*time.Second)); !a.Complete || a.Status != 200 {
					return fmt.Errorf("status %d: %w", a.Status, a.Err)
				}
				return nil
			})
		})
	}
	b.Run("net-http", func(b *testing.B) {
		client := &http.Client{Transport: &http.Transport{MaxIdleConns: 2 * benchSenders, MaxIdleConnsPerHost: 2 * benchSenders}}
		defer client.CloseIdleConnections()
		many(b, func() error {
			ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
			defer cancel()
			r, err := http.NewRequestWithContext(ctx, http.MethodPost, url+"/x", bytes.NewReader(body))
			if err != nil {
				return err
			}
			r.Header.Set("Content-Type", "application/json")
			resp, err := client.Do(r)
			if err != nil {
				return err
			}
			_, err = io.Copy(io.Discard, resp.Body)
			_ = resp.Body.Close()
			return err
		})
	})
}

// many runs b.N operations, benchSenders of them concurrently.
func many(b *testing.B, one func() error) {
	b.Helper()
	b.ReportAllocs()
	var next atomic.Int64
	var wg sync.WaitGroup
	b.ResetTimer()
	before := cpuTime(b)
	for range benchSenders {
		wg.Go(func() {
			for next.Add(1) <= int64(b.N) {
				if err := one(); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	b.ReportMetric(float64((cpuTime(b)-before).Microseconds())/float64(b.N), "cpu-µs/op")
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "ops/s")
}

// cpuTime is what this process has spent so far.
func cpuTime(b *testing.B) time.Duration {
	b.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
