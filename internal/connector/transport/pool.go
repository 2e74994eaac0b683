package transport

import (
	"sync"
	"time"
)

// pool keeps idle connections for KEYED targets. A connection leaves it at most once, and
// only alive: Open runs before the arm, so a dead one is replaced at no cost.
type pool struct {
	limit time.Duration

	mu     sync.Mutex
	idle   map[Target][]*Conn // newest last
	count  int
	sweep  *time.Timer // runs as long as there are idle connections; nil: none
	closed bool
}

func newPool(limit time.Duration) *pool {
	return &pool{limit: limit, idle: make(map[Target][]*Conn)}
}

// take returns the newest living idle connection, or nil.
func (p *pool) take(t Target) *Conn {
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

func (p *pool) pop(t Target) *Conn {
	p.mu.Lock()
	defer p.mu.Unlock()
	conns := p.idle[t]
	if len(conns) == 0 {
		return nil
	}
	l := conns[len(conns)-1]
	p.drop(t, len(conns)-1)
	return l
}

func (p *pool) any() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.count > 0
}

// drop removes one connection; the caller holds mu.
func (p *pool) drop(t Target, i int) {
	conns := p.idle[t]
	copy(conns[i:], conns[i+1:])
	conns[len(conns)-1] = nil
	if conns = conns[:len(conns)-1]; len(conns) == 0 {
		delete(p.idle, t)
	} else {
		p.idle[t] = conns
	}
	p.count--
}

// put keeps a connection, or returns false if it must be closed.
func (p *pool) put(l *Conn) bool {
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

// expire closes the connections that have been idle for too long, and runs again for
// the others.
func (p *pool) expire() {
	p.mu.Lock()
	now, next := time.Now(), p.limit
	var over []*Conn
	for t, conns := range p.idle {
		for ; len(conns) > 0 && now.Sub(conns[0].since) >= p.limit; conns = p.idle[t] {
			over = append(over, conns[0])
			p.drop(t, 0)
		}
		if len(conns) > 0 {
			next = min(next, p.limit-now.Sub(conns[0].since))
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
	var all []*Conn
	for _, conns := range p.idle {
		all = append(all, conns...)
	}
	p.idle, p.count, p.closed = make(map[Target][]*Conn), 0, true
	if p.sweep != nil {
		p.sweep.Stop()
		p.sweep = nil
	}
	p.mu.Unlock()
	for _, l := range all {
		l.hangUp()
	}
}
