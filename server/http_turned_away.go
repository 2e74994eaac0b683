package server

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/fireonce/fireonce/clients/go/fireoncev1"
)

// Rules of this file: refused calls cost little, also in the log. Of each reason the first one in
// a second has a line of its own; the others share one line at the second's end, with their
// number and the first of their peers. A peer has the name that its quotas have (quota_peers.go).

const (
	// turnedAwayEvery is the time that one line of the log stands for.
	turnedAwayEvery = time.Second
	// turnedAwayPeers bounds the peers that the shared line names.
	turnedAwayPeers = 8
)

// turnedAway counts calls that were turned away in the present second, by reason.
type turnedAway struct {
	mu   sync.Mutex
	open map[fireoncev1.ErrorReason]*refusals
}

// refusals are those of one reason after the first one.
type refusals struct {
	count int
	peers []string
}

// first reports whether a refusal is the first one of its reason in this second. If it
// is, end is called when the second is over, with what came after it.
func (t *turnedAway) first(reason fireoncev1.ErrorReason, peer string, end func(refusals)) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if r, counting := t.open[reason]; counting {
		r.count++
		if len(r.peers) < turnedAwayPeers && !slices.Contains(r.peers, peer) {
			r.peers = append(r.peers, peer)
		}
		return false
	}
	if t.open == nil {
		t.open = make(map[fireoncev1.ErrorReason]*refusals)
	}
	r := &refusals{}
	t.open[reason] = r
	time.AfterFunc(turnedAwayEvery, func() {
		t.mu.Lock()
		delete(t.open, reason)
		t.mu.Unlock()
		if r.count > 0 {
			end(*r)
		}
	})
	return true
}

// logTurnedAway writes down that a call was turned away, or counts it.
func (s *Server) logTurnedAway(ctx context.Context, procedure string, f *fault) {
	peer := peerIn(ctx)
	ended := func(more refusals) {
		s.log.Info("more calls turned away", slog.String("reason", f.reason.String()), slog.Int("count", more.count),
			slog.String("peers", strings.Join(more.peers, " ")))
	}
	if !s.turnedAway.first(f.reason, peer, ended) {
		return
	}
	s.log.InfoContext(ctx, "call turned away", "request_id", requestID(ctx), "procedure", procedure,
		"reason", f.reason.String(), "peer", peer)
}
