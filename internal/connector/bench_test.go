package connector_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/fireonce/fireonce/internal/connector/connectortest"
	"github.com/fireonce/fireonce/internal/job"
)

// BenchmarkExchange is one exchange over loopback, its line's opening included:
// on a line from the pool, and on a fresh one.
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
