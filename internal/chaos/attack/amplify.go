package attack

import (
	"context"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/fireonce/fireonce/internal/apikey"
	"github.com/fireonce/fireonce/internal/hostile"
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
)

// amplifying are the requests that cost a server more than their sender, by their key.
func amplifying() []kind {
	var all []kind
	for _, key := range []hostile.Key{hostile.NoKey, hostile.WrongKey, hostile.ReadKey, hostile.WriteKey} {
		cases := sync.OnceValue(func() []hostile.Case { return casesWith(key) })
		all = append(all, kind{"amplifying, " + key.String(), amplifiers, amplifiedEach, func(ctx context.Context, w *worker, at Listener) string {
			c := cases()[w.random.IntN(len(cases()))]
			return w.amplify(ctx, c, at)
		}})
	}
	return all
}

// casesWith lists the requests that come with one kind of key.
func casesWith(key hostile.Key) []hostile.Case {
	return slices.Collect(func(yield func(hostile.Case) bool) {
		for c := range hostile.Cases(hostile.Sizes{Request: requestLimit, Batch: batchLimit}) {
			if c.Key == key && !yield(c) {
				return
			}
		}
	})
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
			return "none" // the system gives no randomness; that is wrong, too
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
