package server

import (
	"context"
	"encoding/binary"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/fireonce/fireonce/clients/go/fireoncev1"
	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/server/wire"
	"github.com/fireonce/fireonce/store"
)

// Rules of this file: streams that want the same events from the same position share one read of
// the store, and its messages. A shared read belongs to one generation of the tail. It began
// after all streams that use it had asked to be woken, so events that it lacks wake them again. A
// slow stream keeps its own page and nothing else. It goes on from its own position, alone if no
// other stream is there.

// maxSharedReads bounds the different reads that are shared in one generation; streams beyond it
// read alone.
const maxSharedReads = 64

// eventBatch is one page of events, ready to be sent.
type eventBatch struct {
	page     store.EventPage
	messages []*fireoncev1.StreamJobEventsResponse // are never written to
	err      error
	done     chan struct{} // closed when the rest is set

	// readers are the streams that wait for the batch; under the fanout's lock. stop ends the
	// read when none is left.
	readers int
	stop    context.CancelFunc
}

// eventFanout keeps the reads of one generation.
type eventFanout struct {
	mu         sync.Mutex
	generation <-chan struct{}
	batches    map[string]*eventBatch
}

// get returns the batch that read returns, or has returned to another stream of this generation.
// The read ends with the last of its streams: one that leaves fails no other.
func (s *eventFanout) get(ctx context.Context, generation <-chan struct{}, key string, read func(context.Context) *eventBatch) *eventBatch {
	own, stop := context.WithCancel(context.WithoutCancel(ctx))
	b, first := s.join(generation, key, stop)
	defer s.leave(b, key)
	if first {
		go func() {
			defer stop()
			defer close(b.done)
			// A panic here belongs to no call: it must not end the process.
			defer func() {
				if cause := recover(); cause != nil {
					b.err = fmt.Errorf("panic: %v", cause)
				}
			}()
			got := read(own)
			b.page, b.messages, b.err = got.page, got.messages, got.err
		}()
	}
	select {
	case <-b.done:
		return b
	case <-ctx.Done():
		return &eventBatch{err: ctx.Err()}
	}
}

// join finds the read under a key, or begins it; stop ends that one.
func (s *eventFanout) join(generation <-chan struct{}, key string, stop context.CancelFunc) (b *eventBatch, first bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.generation != generation {
		s.generation, s.batches = generation, make(map[string]*eventBatch)
	}
	if b, ok := s.batches[key]; ok && !b.failed() {
		stop()
		b.readers++
		return b, false
	}
	b = &eventBatch{done: make(chan struct{}), readers: 1, stop: stop}
	if len(s.batches) < maxSharedReads {
		s.batches[key] = b
	}
	return b, true
}

// leave counts a stream out of a read.
func (s *eventFanout) leave(b *eventBatch, key string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if b.readers--; b.readers > 0 {
		return
	}
	select {
	case <-b.done:
	default: // no stream waits for it, and none may join it
		b.stop()
		if s.batches[key] == b {
			delete(s.batches, key)
		}
	}
}

func (b *eventBatch) failed() bool {
	select {
	case <-b.done:
		return b.err != nil
	default:
		return false
	}
}

// key is the same for two streams that get the same messages.
func (f *feed) key() string {
	q := f.query
	var flags byte
	if f.includeJob {
		flags = 1
	}
	b := append([]byte{byte(f.kind), flags}, q.Job[:]...)
	b = append(b, q.Schedule[:]...)
	b = binary.BigEndian.AppendUint64(b, uint64(q.After))
	b = binary.BigEndian.AppendUint64(b, uint64(q.Incarnation))
	if q.Ended {
		b[1] |= 2
	}
	b = append(b, byte(len(q.Labels)))
	for _, name := range slices.Sorted(maps.Keys(q.Labels)) {
		b = wire.AppendPrefixed(wire.AppendPrefixed(b, []byte(name)), []byte(q.Labels[name]))
	}
	for _, ids := range [][]job.ID{q.Jobs, q.Connections} {
		b = binary.BigEndian.AppendUint64(b, uint64(len(ids)))
		for _, id := range ids {
			b = append(b, id[:]...)
		}
	}
	return string(append(b, q.Project...))
}
