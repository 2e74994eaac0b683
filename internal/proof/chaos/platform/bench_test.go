package platform_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/fireonce/fireonce/internal/proof/chaos/platform"
)

// BenchmarkDurableEffects is how many requests a second a platform takes whose
// effects are durable before each answer, its clients included.
func BenchmarkDurableEffects(b *testing.B) {
	p, err := platform.Start(platform.Options{Log: b.TempDir() + "/log"})
	if err != nil {
		b.Fatal(err)
	}
	defer p.Close()
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64}}
	var n atomic.Int64
	b.SetParallelism(32)
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			resp, err := client.Post(p.OpaqueURL(), "application/json", strings.NewReader(fmt.Sprintf(`{"subject":"s%d"}`, n.Add(1))))
			if err != nil {
				b.Error(err)
				return
			}
			_, _ = io.Copy(io.Discard, resp.Body)
			_ = resp.Body.Close()
		}
	})
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "requests/s")
}
