//go:build !race

package server_test

import (
	"io"
	"math"
	"net/http"
	"os"
	"runtime/metrics"
	"testing"
	"time"

	"github.com/fireonce/fireonce/internal/proof/hostile"
	"github.com/fireonce/fireonce/server"
)

// mostPerByte is what a byte that a server may read of a request may cost it, in bytes
// that are allocated in the whole: what is in use at a time is less.
const mostPerByte = 8

// amplifySizes are small, so that thousands of requests take minutes. What a request
// costs beside its size weighs the more.
var amplifySizes = hostile.Sizes{Request: 256 << 10, Batch: 1 << 20}

// amplifyStride is how many cases the test skips; FIREONCE_HOSTILE=all sends all.
const amplifyStride = 17

// TestNoRequestCostsMore sends requests that are made to cost much, one at a time. The race
// detector is left out: it allocates memory of its own.
func TestNoRequestCostsMore(t *testing.T) {
	if testing.Short() {
		t.Skip("left out of the ordinary tests")
	}
	f := start(t, func(c *server.Config) {
		c.APIKey, c.Limits.Request, c.Limits.Batch = operatorKey, amplifySizes.Request, amplifySizes.Batch
		c.Limits.StreamDuration = 50 * time.Millisecond // lawful streams end by themselves
		c.Log = nil
	})
	api, operator := overConnect(f), bring(t.Context(), operatorKey)
	keys := map[hostile.Key]string{hostile.WrongKey: "nobody-0123456789"}
	for key, scopes := range map[hostile.Key][]string{
		hostile.ReadKey: {"jobs:read", "connections:read"}, hostile.WriteKey: server.Scopes(),
	} {
		made, err := makeKey(operator, api, server.DefaultProject, scopes)
		f.must(err)
		keys[key] = made.GetSecret()
	}
	send := hostile.NewSender(map[hostile.Listener]string{hostile.API: f.addr, hostile.Native: f.native}, keys)
	defer send.Close()
	n, sent, worst := 0, 0, hostile.Case{}
	var most float64
	for c := range hostile.Cases(amplifySizes) {
		if n++; n%amplifyStride != 0 && os.Getenv("FIREONCE_HOSTILE") != "all" {
			continue
		}
		// The request is made before it is measured. Buffers that outlive a request are
		// made in one of the tries.
		r, err := c.Request(t.Context(), "", "")
		f.must(err)
		c = c.Made(bodyOf(t, r))
		own, limit, cost := ownCost(t, c), float64(mostPerByte*c.Limit), math.Inf(1)
		// What else allocates meanwhile, such as the store's own work on a busy machine, only adds.
		for try := 0; try < 3 || try < 10 && cost > limit; try++ {
			before := allocated()
			_, _ = send.Send(t.Context(), c) // the server may close the connection
			cost = min(cost, float64(allocated()-before)-own)
		}
		if cost > limit {
			t.Errorf("%s: %.0f bytes, at most %.0f", c.Name, cost, limit)
		}
		sent++
		if per := cost / float64(c.Limit); per > most {
			most, worst = per, c
		}
	}
	t.Logf("%d requests; the dearest costs %.1f bytes for each that may be read: %s", sent, most, worst.Name)
}

// ownCost is what the client allocates to make a request and write it: of thousands of headers,
// more than the server allocates to read them.
func ownCost(t *testing.T, c hostile.Case) float64 {
	t.Helper()
	least := math.Inf(1)
	for range 3 {
		before := allocated()
		r, err := c.Request(t.Context(), "", "")
		if err != nil {
			t.Fatal(err)
		}
		if err := r.Write(io.Discard); err != nil {
			t.Fatal(err)
		}
		least = min(least, float64(allocated()-before))
	}
	return least
}

func bodyOf(t *testing.T, r *http.Request) []byte {
	t.Helper()
	if r.Body == nil {
		return nil
	}
	data, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// allocated is all that this process ever allocated.
func allocated() uint64 {
	sample := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}}
	metrics.Read(sample)
	return sample[0].Value.Uint64()
}
