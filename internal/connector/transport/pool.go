package transport

import (
	"sync"
	"time"
)

// pool keeps idle lines for KEYED targets. A line leaves it at most once, and
// only alive: Open runs before the arm, so a dead one is replaced at no cost.
type pool struct {
	limit time.Duration

	mu     sync.Mutex
	idle   map[Target][]*Line // newest last
	count  int
	sweep  *time.Timer // runs as long as there are idle lines; nil: none
	closed bool
}

func newPool(limit time.Duration) *pool {
	return &pool{limit: limit, idle: make(map[Target][]*Line)}
}

// take gives the newest living idle line, or nil.
func (p *pool) take(t Target) *Line {
	for {
		l := p.pop(t)
		if l == nil {
			return nil
		}
		if l.peek() == pulseQuiet {
			return l.renew()
		}
		l.abort()
	}
}

func (p *pool) pop(t Target) *Line {
	p.mu.Lock()
	defer p.mu.Unlock()
	lines := p.idle[t]
	if len(lines) == 0 {
		return nil
	}
	l := lines[len(lines)-1]
	p.drop(t, len(lines)-1)
	return l
}

func (p *pool) any() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.count > 0
}

// drop takes one line out; the caller holds mu.
func (p *pool) drop(t Target, i int) {
	lines := p.idle[t]
	copy(lines[i:], lines[i+1:])
	lines[len(lines)-1] = nil
	if lines = lines[:len(lines)-1]; len(lines) == 0 {
		delete(p.idle, t)
	} else {
		p.idle[t] = lines
	}
	p.count--
}

// put keeps a line, or says that it must be closed.
func (p *pool) put(l *Line) bool {
	if !canPeek || p.limit < 0 {
		return false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed || p.count >= MaxIdle || len(p.idle[l.target]) >= MaxIdlePerTarget {
		return false
	}
	l.since = time.Now()
	p.idle[l.target] = append(p.idle[l.target], l)
	p.count++
	if p.sweep == nil {
		p.sweep = time.AfterFunc(p.limit, p.expire)
	}
	return true
}

// expire closes the lines that have been idle for too long, and comes again for
// the others.
func (p *pool) expire() {
	p.mu.Lock()
	now, next := time.Now(), p.limit
	var over []*Line
	for t, lines := range p.idle {
		for ; len(lines) > 0 && now.Sub(lines[0].since) >= p.limit; lines = p.idle[t] {
			over = append(over, lines[0])
			p.drop(t, 0)
		}
		if len(lines) > 0 {
			next = min(next, p.limit-now.Sub(lines[0].since))
		}
	}
	if p.count > 0 && p.sweep != nil {
		p.sweep.Reset(next)
	} else {
		p.sweep = nil
	}
	p.mu.Unlock()
	for _, l := range over {
		l.hangUp()
	}
}

func (p *pool) close() {
	p.mu.Lock()
	var all []*Line
	for _, lines := range p.idle {
		all = append(all, lines...)
	}
	p.idle, p.count, p.closed = make(map[Target][]*Line), 0, true
	if p.sweep != nil {
		p.sweep.Stop()
		p.sweep = nil
	}
	p.mu.Unlock()
	for _, l := range all {
		l.hangUp()
	}
}
