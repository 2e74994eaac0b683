package server

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/fireonce/fireonce/clients/go/adminv1"
	"github.com/fireonce/fireonce/clients/go/fireoncev1"
	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/internal/seal"
	"github.com/fireonce/fireonce/store"
)

// Rules of this file: blocked_reason states why a job does not start although its time has come, or
// why nothing moves while it is SENDING.
// The widest cause comes first: the database, the job that it replies to, its last attempt's own
// reason, its connection. An answer goes without it where it cannot be read, because the call
// itself has succeeded.

const (
	// metaMaxAge is how old the cached description of the database may be.
	metaMaxAge = time.Second
	// serversMaxAge is how old the cached list of servers may be.
	serversMaxAge = 2 * time.Second
	// quarantineWords are for users: the reason itself names machines.
	quarantineWords = "Nothing is being sent: the database may be a copy or an old state. An operator must run `fireonce recover`."
	// clockStands and clockGoesOn say what a suspect clock means for sending.
	clockStands = "Nothing is being sent until the time is believed again"
	clockGoesOn = "Jobs are sent by the time that was believed before"
)

// clockToWire describes a suspect clock; nil: it is not suspect.
func clockToWire(d store.SuspectClock) *adminv1.ClockDoubt {
	if d.Why == "" {
		return nil
	}
	return &adminv1.ClockDoubt{
		Kind: adminv1.ClockDoubt_Kind(d.Kind), Message: text(clockWords(d)), SendingStopped: d.Suspends, BeginTime: timeToWire(d.Since),
	}
}

// clockWords describe a suspect clock; empty: it is not suspect.
func clockWords(d store.SuspectClock) string {
	switch {
	case d.Why == "":
		return ""
	case d.Suspends:
		return clockStands + ": " + d.Why + "."
	default:
		return clockGoesOn + ": " + d.Why + "."
	}
}

// meta describes the database as it was at most metaMaxAge ago.
func (s *Server) meta(ctx context.Context) (store.Meta, error) {
	return s.metaCache.Load(ctx, struct{}{}, s.store.Meta)
}

// holdKey names a hold key of a connection.
type holdKey struct {
	connection job.ID
	key        string
}

// jobConverter converts the jobs of one call. It reads each connection, and each of its hold
// keys that may be held, once.
type jobConverter struct {
	server  *Server
	project string
	// meta is the database's description, once it was read.
	meta  *readResult[store.Meta]
	conns map[job.ID]*store.Connection
	holds map[holdKey]store.Hold
	// stops has the jobs whose stop was read; nil: none is in force.
	stops map[job.ID]*store.Stop
}

func (s *Server) newJobConverter(ctx context.Context, project string) *jobConverter {
	// The read begins now, and is shared. A submit does not wait for it before it is stored.
	ended, cancel := context.WithCancel(ctx)
	cancel()
	_, _ = s.meta(ended)
	return &jobConverter{server: s, project: project, conns: make(map[job.ID]*store.Connection), holds: make(map[holdKey]store.Hold), stops: make(map[job.ID]*store.Stop)}
}

// stoppedReason returns why no job at all is sent; nil: jobs are sent.
func (v *jobConverter) stoppedReason(ctx context.Context) *fireoncev1.BlockedReason {
	v.readMeta(ctx)
	switch meta := v.meta.value; {
	case v.meta.err != nil:
		return nil
	case meta.Quarantined != "":
		return newBlockedReason(fireoncev1.BlockedReason_KIND_QUARANTINED, quarantineWords)
	case meta.Clock.Suspends:
		return newBlockedReason(fireoncev1.BlockedReason_KIND_CLOCK_DOUBTED, clockWords(meta.Clock))
	default:
		return nil
	}
}

// readMeta reads the description of the database, once.
func (v *jobConverter) readMeta(ctx context.Context) {
	if v.meta == nil {
		meta, err := v.server.meta(ctx)
		v.meta = &readResult[store.Meta]{meta, err}
	}
}

func newBlockedReason(kind fireoncev1.BlockedReason_Kind, message string) *fireoncev1.BlockedReason {
	return &fireoncev1.BlockedReason{Kind: kind, Message: message}
}

// jobs converts jobs, whose connections it reads together.
func (v *jobConverter) jobs(ctx context.Context, snaps []job.Snapshot) []*fireoncev1.Job {
	ids := make(map[job.ID]bool, len(snaps))
	for _, snap := range snaps {
		ids[snap.Connection] = true
	}
	found, _ := connectionsOf(ctx, v.server.store, v.project, slices.Collect(maps.Keys(ids)))
	for i, c := range found {
		v.conns[c.ID] = &found[i]
	}
	v.findStops(ctx, snaps)
	return convertAll(snaps, func(snap job.Snapshot) *fireoncev1.Job { return v.job(ctx, snap) })
}

// job converts a job without its payload.
func (v *jobConverter) job(ctx context.Context, snap job.Snapshot) *fireoncev1.Job {
	out := jobToWire(snap.Job, v.retry(ctx, &snap.Spec))
	out.ConnectionKey = v.connection(ctx, snap.Connection).Key
	if !snap.Schedule.IsZero() {
		keys, _ := v.server.keys.keys(ctx, v.project, nil, []job.ID{snap.Schedule})
		out.ScheduleKey = keys[snap.Schedule]
	}
	switch {
	case snap.State.Runnable():
		out.BlockedReason = v.blocked(ctx, snap)
	case snap.State == job.Accepted || snap.State == job.Ambiguous:
		out.BlockedReason = v.ownReason(ctx, snap)
	case snap.State == job.Sending:
		out.BlockedReason = v.goneReason(ctx, snap)
	}
	if snap.State == job.NeedsResolution || snap.State == job.Ambiguous {
		out.ResendAllowedTime = timeToWire(snap.Fence)
	}
	if !snap.Ended.IsZero() {
		conn := v.connection(ctx, snap.Connection)
		if kept, ends := v.server.keepKeys.KeepKey(conn.Connector, conn.KeyWindow); ends {
			out.KeyExpireTime = timeToWire(snap.Ended.Add(kept))
		}
	}
	return out
}

// retry returns the retry policy that is in force for a job.
func (v *jobConverter) retry(ctx context.Context, s *job.Spec) job.RetryPolicy {
	conn := v.connection(ctx, s.Connection)
	return s.Retry.Over(v.server.cfg.Connectors.Retry(conn.Connector, conn.Retry))
}

// blocked returns why a waiting job waits.
func (v *jobConverter) blocked(ctx context.Context, snap job.Snapshot) *fireoncev1.BlockedReason {
	if shut := v.stoppedReason(ctx); shut != nil {
		return shut
	}
	if !snap.WaitsFor.IsZero() {
		id := snap.WaitsFor.String()
		out := newBlockedReason(fireoncev1.BlockedReason_KIND_PREDECESSOR, "Waits for job "+id+", which it replies to, to succeed.")
		out.JobId = id
		return out
	}
	if paused := v.stopReason(ctx, snap); paused != nil {
		return paused
	}
	if own := v.ownReason(ctx, snap); own != nil {
		return own
	}
	conn := v.connection(ctx, snap.Connection)
	if noCredential(*conn, v.server.credentialRequired) {
		out := newBlockedReason(fireoncev1.BlockedReason_KIND_CREDENTIAL, noCredentialWords)
		out.ConnectionCause = fireoncev1.ConnectionStateCause_CONNECTION_STATE_CAUSE_CREDENTIAL_MISSING
		return out
	}
	if held := holdReason(conn, v.hold(ctx, snap), snap.NextAt); held != nil {
		return held
	}
	return limitReason(snap)
}

// goneReason returns that the server that sends a job is gone; nil: it is not, as far as this one
// knows.
func (v *jobConverter) goneReason(ctx context.Context, snap job.Snapshot) *fireoncev1.BlockedReason {
	servers, err := v.server.serverCache.Load(ctx, struct{}{}, v.server.store.Servers)
	if err != nil {
		return nil
	}
	i := slices.IndexFunc(servers, func(one store.Server) bool { return one.Worker == snap.Worker && one.State == store.ServerGone })
	if i < 0 {
		return nil
	}
	words := "Under way at " + snap.Worker + ", which is gone"
	if seen := servers[i].Seen; !seen.IsZero() {
		words += " (last sign of it: " + seen.UTC().Format(time.RFC3339) + ")"
	}
	out := newBlockedReason(fireoncev1.BlockedReason_KIND_SERVER_GONE, words+". Decided by "+snap.Fence.UTC().Format(time.RFC3339)+" at the latest.")
	out.EndTime = timeToWire(snap.Fence)
	return out
}

// limitReason returns what a job waits for after its own attempt met a rate limit: as long as it
// was asked to, or longer; nil: it did not.
func limitReason(snap job.Snapshot) *fireoncev1.BlockedReason {
	if snap.State != job.Retrying || snap.Misses == 0 || snap.LastError == nil || snap.LastError.Kind != job.FailRateLimited {
		return nil
	}
	at := snap.NextAt.UTC().Format(time.RFC3339)
	out := newBlockedReason(fireoncev1.BlockedReason_KIND_RATE_LIMITED, "The next attempt is not before "+at+": the platform limited the rate of requests.")
	out.ConnectionCause = fireoncev1.ConnectionStateCause_CONNECTION_STATE_CAUSE_RATE_LIMITED
	out.EndTime = timeToWire(snap.NextAt)
	return out
}

// ownReason returns why a job's own next step was put off; nil: it was not.
func (v *jobConverter) ownReason(ctx context.Context, snap job.Snapshot) *fireoncev1.BlockedReason {
	switch snap.Blocked {
	case "":
		return nil
	case job.Stopped:
		return v.stopReason(ctx, snap)
	case job.WaitsForContent:
		return newBlockedReason(fireoncev1.BlockedReason_KIND_SAME_CONTENT, snap.Blocked)
	case job.ConnectionCoolsDown, job.ScheduleCoolsDown:
		out := newBlockedReason(fireoncev1.BlockedReason_KIND_COOL_DOWN, snap.Blocked)
		out.EndTime = timeToWire(snap.NextAt)
		return out
	case seal.KeyMissing:
		return newBlockedReason(fireoncev1.BlockedReason_KIND_SEALING_KEY_MISSING, snap.Blocked)
	case seal.Broken:
		return newBlockedReason(fireoncev1.BlockedReason_KIND_SEAL_BROKEN, snap.Blocked)
	}
	if held := authHoldReason(v.hold(ctx, snap)); held != nil {
		return held
	}
	out := newBlockedReason(fireoncev1.BlockedReason_KIND_PUT_OFF, snap.Blocked)
	out.EndTime = timeToWire(snap.NextAt)
	return out
}

// findStops reads the stops over jobs that may wait for one. Stops that cannot be read hold nothing.
func (v *jobConverter) findStops(ctx context.Context, snaps []job.Snapshot) {
	v.readMeta(ctx)
	if v.meta.err != nil || v.meta.value.Stops == 0 {
		return
	}
	var ids []job.ID
	var targets []store.StopTarget
	for i := range snaps {
		snap := &snaps[i]
		if _, known := v.stops[snap.ID]; known || !snap.State.Runnable() && snap.Blocked != job.Stopped {
			continue
		}
		ids = append(ids, snap.ID)
		targets = append(targets, store.StopTargetOf(&snap.Spec, v.connection(ctx, snap.Connection).Connector))
	}
	if len(ids) == 0 {
		return
	}
	over, err := v.server.store.StopsOver(ctx, targets)
	for i, id := range ids {
		if err == nil && i < len(over) {
			v.stops[id] = over[i]
		}
	}
}

// stopReason returns which stop holds a job back; nil: none does.
func (v *jobConverter) stopReason(ctx context.Context, snap job.Snapshot) *fireoncev1.BlockedReason {
	v.findStops(ctx, []job.Snapshot{snap})
	stop := v.stops[snap.ID]
	if stop == nil {
		return nil
	}
	out := newBlockedReason(fireoncev1.BlockedReason_KIND_PAUSED, stopWords(*stop))
	if stop.Breaker() {
		out.Kind = fireoncev1.BlockedReason_KIND_CIRCUIT_OPEN
	}
	out.PauseId, out.EndTime = stop.ID.String(), timeToWire(stop.Until())
	return out
}

// authHoldReason returns why a credential holds jobs back; nil: it does not.
func authHoldReason(h store.Hold) *fireoncev1.BlockedReason {
	if h.AuthAt.IsZero() {
		return nil
	}
	out := newBlockedReason(fireoncev1.BlockedReason_KIND_CREDENTIAL, text(h.Reason))
	out.ConnectionCause = authCauseToWire(h.Auth)
	return out
}

// holdReason returns what holds back the jobs of a hold key. A refused credential or a pause
// lasts until a person acts.
func holdReason(c *store.Connection, h store.Hold, due time.Time) *fireoncev1.BlockedReason {
	switch {
	case !h.AuthAt.IsZero():
		return authHoldReason(h)
	case !c.PausedAt.IsZero():
		words := "The connection is paused."
		if c.PausedReason != "" {
			words = "The connection is paused: " + text(c.PausedReason)
		}
		out := newBlockedReason(fireoncev1.BlockedReason_KIND_CONNECTION_PAUSED, words)
		out.ConnectionCause = fireoncev1.ConnectionStateCause_CONNECTION_STATE_CAUSE_PAUSED
		return out
	case h.LimitedUntil.After(due):
		out := newBlockedReason(fireoncev1.BlockedReason_KIND_RATE_LIMITED, limitedUntil(h.LimitedUntil))
		out.ConnectionCause = fireoncev1.ConnectionStateCause_CONNECTION_STATE_CAUSE_RATE_LIMITED
		out.EndTime = timeToWire(h.LimitedUntil)
		return out
	default:
		return nil
	}
}

// hold reads the hold of a job's hold key. Where the connection has no hold at all, the store is
// not asked; a hold that cannot be read holds nothing.
func (v *jobConverter) hold(ctx context.Context, snap job.Snapshot) store.Hold {
	if c := v.connection(ctx, snap.Connection); c.AuthHoldAt.IsZero() && c.RateLimitedUntil.IsZero() {
		return store.Hold{}
	}
	at := holdKey{snap.Connection, snap.HoldKey}
	h, known := v.holds[at]
	if !known {
		h, _ = v.server.store.Hold(ctx, at.connection, at.key)
		v.holds[at] = h
	}
	return h
}

// limitedUntil explains why no job of a connection starts for a while. Each waiting job shows
// which of the two causes it is.
func limitedUntil(until time.Time) string {
	return "Nothing starts before " + until.UTC().Format(time.RFC3339) + ": the platform asked to wait, or cannot be asked."
}

// connection reads a connection; one that cannot be read holds nothing.
func (v *jobConverter) connection(ctx context.Context, id job.ID) *store.Connection {
	c, known := v.conns[id]
	if !known {
		read, _ := v.server.store.Connection(ctx, store.Ref{Project: v.project, ID: id})
		c = &read
		v.conns[id] = c
	}
	return c
}
