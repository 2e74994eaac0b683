package attack

import (
	"context"
	"math/rand/v2"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/fireonce/fireonce/internal/apikey"
	"github.com/fireonce/fireonce/internal/proof/hostile"
)

const (
	// The limits of a server, in bytes of a decoded request and of a decoded batch.
	requestLimit, batchLimit = 1 << 20, 16 << 20
	// amplifiers is how many workers send amplifying requests with each kind of key.
	amplifiers = 2
	// amplifiedEach is a worker's pause.
	amplifiedEach = 100 * time.Millisecond
	// amplifyBy bounds one request; some open streams that would last.
	amplifyBy = 5 * time.Second
	// sampled is how many requests of each kind of key one attack sends, over and over.
	// They are made before it begins: making one takes more of the machine than most of
	// them take of a server, and the machine is the servers', too.
	sampled = 200
)

// amplifying are the requests that cost a server more than their sender, by their key.
func amplifying() []kind {
	var all []kind
	for _, key := range []hostile.Key{hostile.NoKey, hostile.WrongKey, hostile.ReadKey, hostile.WriteKey} {
		cases := sync.OnceValue(func() []hostile.Case { return sample(key) })
		all = append(all, kind{
			name: "amplifying, " + key.String(), workers: amplifiers, pause: amplifiedEach,
			prepare: func() { cases() },
			act: func(ctx context.Context, w *worker, at Listener) string {
				return w.amplify(ctx, cases()[w.random.IntN(len(cases()))], at)
			},
		})
	}
	return all
}

// sample makes some of the requests that come with one kind of key, evenly chosen from all.
func sample(key hostile.Key) []hostile.Case {
	all := slices.Collect(func(yield func(hostile.Case) bool) {
		for c := range hostile.Cases(hostile.Sizes{Request: requestLimit, Batch: batchLimit}) {
			if c.Key == key && !yield(c) {
				return
			}
		}
	})
	random := rand.New(rand.NewPCG(uint64(key), 0)) //nolint:gosec // no secret is made of it
	random.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	some := all[:min(sampled, len(all))]
	for i, c := range some {
		some[i] = c.Made(c.Body())
	}
	return slices.Clone(some)
}

// unencrypted speaks HTTP/2 without TLS, as gRPC does.
var unencrypted = func() *http.Client {
	t := &http.Transport{DisableKeepAlives: true, DisableCompression: true, Protocols: new(http.Protocols)}
	t.Protocols.SetUnencryptedHTTP2(true)
	return &http.Client{Timeout: patience, Transport: t}
}()

func (w *worker) amplify(ctx context.Context, c hostile.Case, at Listener) string {
	ctx, cancel := context.WithTimeout(ctx, amplifyBy)
	defer cancel()
	base, client := at.URL, hasty
	if c.HTTP2 || c.Listener == hostile.Native {
		client = unencrypted
	}
	if c.Listener == hostile.Native {
		base = "http://" + at.GRPC
	}
	req, err := c.Request(ctx, base, w.key(c.Key))
	if err != nil {
		return err.Error()
	}
	return send(client, req)
}

// key returns a key of one kind; empty: none.
func (c *campaign) key(of hostile.Key) string {
	switch of {
	case hostile.WrongKey:
		k, err := apikey.New()
		if err != nil {
			return "none" // the system has no randomness; that is wrong, too
		}
		return k.Reveal()
	case hostile.ReadKey:
		return c.keys.Read
	case hostile.WriteKey:
		return c.keys.Write
	default:
		return ""
	}
}
