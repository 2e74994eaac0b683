package server

import (
	"context"
	"fmt"
	"strconv"
	"sync"

	"github.com/fireonce/fireonce/clients/go/fireoncev1"
)

// openStreams counts the open event streams and ends them all at a shutdown.
type openStreams struct {
	quotas  Quotas
	notes   *quotaLog
	closing chan struct{} // closed by close

	mu     sync.Mutex
	open   map[string]int // per project
	total  int
	closed bool
	empty  chan struct{} // closed when closed and none is open
}

func newOpenStreams(quotas Quotas, notes *quotaLog) *openStreams {
	return &openStreams{
		quotas: quotas, notes: notes, closing: make(chan struct{}), open: make(map[string]int), empty: make(chan struct{}),
	}
}

// enter counts a stream in; the function counts it out.
func (s *openStreams) enter(project string) (leave func(), err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, shuttingDown()
	}
	if limit := s.quotas.limit(project, QuotaStreams); limit > 0 && int64(s.open[project]) >= limit {
		s.notes.usedUp(project, QuotaStreams, limit, limit)
		return nil, refuse(fireoncev1.ErrorReason_ERROR_REASON_TOO_MANY_STREAMS,
			fmt.Sprintf("%d event streams of this project are open, and no more are allowed", limit),
			"quota", string(QuotaStreams), "limit", strconv.FormatInt(limit, 10))
	}
	s.open[project]++
	s.total++
	return func() { s.leave(project) }, nil
}

// of returns how many streams of a project are open.
func (s *openStreams) of(project string) int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return int64(s.open[project])
}

// count returns how many streams are open.
func (s *openStreams) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.total
}

func (s *openStreams) leave(project string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.open[project]--; s.open[project] == 0 {
		delete(s.open, project)
	}
	if s.total--; s.total == 0 && s.closed {
		close(s.empty)
	}
}

// close ends every stream and waits until they are gone.
func (s *openStreams) close(ctx context.Context) error {
	s.mu.Lock()
	if !s.closed {
		s.closed = true
		close(s.closing)
		if s.total == 0 {
			close(s.empty)
		}
	}
	s.mu.Unlock()
	select {
	case <-s.empty:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func shuttingDown() *fault {
	return refuse(fireoncev1.ErrorReason_ERROR_REASON_SHUTTING_DOWN,
		"the server is shutting down; go on with the last cursor, on another server if there is one")
}
