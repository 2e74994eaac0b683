package demo

import (
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"sync"

	"github.com/fireonce/fireonce/cmd/fireonce/internal/receiver"
)

// faults decides which answers are lost: the same ones in each trial, by seed,
// subject and number of the request.
type faults struct {
	loss float64
	seed uint64
}

// mostLost bounds the answers in a row that are lost for one subject, so that the
// demo ends in about half a minute: Fireonce waits longer before each repeat.
const mostLost = 2

func (f faults) plan(r receiver.Request) receiver.Answer {
	if r.Number > mostLost {
		return receiver.Reply
	}
	h := fnv.New64a()
	_ = binary.Write(h, binary.LittleEndian, f.seed)
	fmt.Fprintf(h, "%s/%d", r.Subject, r.Number)
	x := mix(h.Sum64())
	if float64(x>>11)/(1<<53) >= f.loss {
		return receiver.Reply
	}
	if x&3 == 0 {
		return receiver.Silence
	}
	return receiver.Reset
}

// mix spreads a hash over all its bits (splitmix64).
func mix(x uint64) uint64 {
	x ^= x >> 30
	x *= 0xbf58476d1ce4e5b9
	x ^= x >> 27
	x *= 0x94d049bb133111eb
	return x ^ x>>31
}

// trap withholds the answer to the first request after a number of effects, and reports it.
type trap struct {
	after  int
	sprung chan<- struct{}

	mu      sync.Mutex
	effects int
	done    bool
}

func (t *trap) plan(next func(receiver.Request) receiver.Answer) func(receiver.Request) receiver.Answer {
	return func(r receiver.Request) receiver.Answer {
		if t.springs(r) {
			t.sprung <- struct{}{}
			return receiver.Silence
		}
		return next(r)
	}
}

func (t *trap) springs(r receiver.Request) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if r.Effect {
		t.effects++
	}
	if t.done || t.effects < t.after {
		return false
	}
	t.done = true
	return true
}
