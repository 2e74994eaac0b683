package storetest

import (
	"sync"
	"time"

	"github.com/fireonce/fireonce/store"
)

// Machine has the clocks of a machine, which a test sets and a store reads, at any time and
// from goroutines of its own.
type Machine struct {
	// true is the true time.
	true *manual

	mu sync.Mutex
	// off is how far the wall clock is ahead of the true time.
	off   time.Duration
	proof string
	// began is when the machine was started.
	began time.Time
}

// longBoot is how long a new Machine has run.
const longBoot = 24 * time.Hour

// NewMachine returns a machine whose wall clock is right, at a time.
func NewMachine(now time.Time) *Machine {
	m := &Machine{true: &manual{}, began: now.Add(-longBoot)}
	m.true.us.Store(now.UnixMicro())
	return m
}

// Read reads the clocks. It is what store.ClockOptions.Read needs.
func (m *Machine) Read() store.ClockReading {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := m.true.now()
	return store.ClockReading{Wall: now.Add(m.off).UnixMicro(), Boot: now.Sub(m.began), Proof: m.proof}
}

// Pass lets time pass.
func (m *Machine) Pass(d time.Duration) { m.true.advance(d) }

// Set makes the wall clock wrong by off.
func (m *Machine) Set(off time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.off = off
}

// Prove sets why the wall clock is right from now on; empty: nothing proves it.
func (m *Machine) Prove(because string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.proof = because
}

// Boot makes the machine one that was started some time ago.
func (m *Machine) Boot(ago time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.began = m.true.now().Add(-ago)
}
