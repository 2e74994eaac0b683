//go:build unix

package main

import (
	"context"
	"time"

	"github.com/fireonce/fireonce/internal/proof/bench/speed/internal/receiver"
)

// bareWork sends the same requests as all others, from memory: what is left of a
// queue when it keeps nothing and writes nothing down.
func bareWork(ctx context.Context, t task) (sample, error) {
	p := t.run().Poster(t.Senders)
	m := t.start(ctx, 0)
	err := concurrently(ctx, t.Senders, t.Jobs, func(ctx context.Context, i int) error {
		return p.Post(ctx, receiver.Payload(i, time.Now()))
	})
	return m.stop(ctx, t.Jobs), err
}
