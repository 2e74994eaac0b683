package server

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/fireonce/fireonce/clients/go/fireoncev1"
	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/store"
)

// Rules of this file: a stream reads the event log from a position on, a page at a time, and
// sends what it reads with the position to go on from. The tail wakes it when the log has grown;
// a heartbeat makes it read, too. Streams at one position read together (events_fanout.go). A
// page is read when the one before it is sent, so a slow reader slows no other, and a reader that
// takes nothing for a while is cut off. Positions belong to one incarnation of the database: a
// stream ends when that does.

const (
	// eventPageSize bounds the events of one read of the log.
	eventPageSize = 100
	// streamJitter is the largest part of a stream's life that is taken off, so that streams that
	// began together do not end together.
	streamJitter = 0.1
)

// feed is one stream at work.
type feed struct {
	server     *Server
	query      store.EventQuery
	kind       tokenKind
	job        job.ID // of a jobCursor
	owner      [ownerLen]byte
	includeJob bool
	// begun: the stream has its first page. caughtUp: the page before ended at the log's end.
	begun, caughtUp bool
	// withoutContent is set when the reader may see no content.
	withoutContent bool
	out            EventSink
}

// StreamJobEvents implements the RPC.
func (s *jobService) StreamJobEvents(ctx context.Context, req *fireoncev1.StreamJobEventsRequest, out *connect.ServerStream[fireoncev1.StreamJobEventsResponse]) error {
	return s.streamJobEvents(ctx, req, httpSink{out, writerOf(ctx), s.cfg.Limits.Write, requestID(ctx)})
}

func (s *jobService) streamJobEvents(ctx context.Context, req *fireoncev1.StreamJobEventsRequest, out EventSink) error {
	project := callerOf(ctx).project
	leave, err := s.streams.enter(project)
	if err != nil {
		return err
	}
	defer leave()
	f, err := s.feed(ctx, req.GetFilter(), eventPageSize, req.GetIncludeJob())
	if err != nil {
		return err
	}
	f.out = out
	switch start := req.GetStart().(type) {
	case *fireoncev1.StreamJobEventsRequest_AfterCursor:
		err = f.after(start.AfterCursor)
	case *fireoncev1.StreamJobEventsRequest_FromBeginning:
		err = f.beginning(ctx)
	default:
		err = f.now(ctx)
	}
	if err != nil {
		return err
	}
	life := s.cfg.Limits.StreamDuration
	if asked := req.GetMaxDuration(); asked != nil {
		life = min(life, asked.AsDuration())
	}
	life -= time.Duration(float64(life) * streamJitter * rand.Float64()) //nolint:gosec // jitter needs no secret randomness
	f.out.Begin()
	return f.run(ctx, life)
}

// feed returns a feed of the events that a filter selects.
func (s *Server) feed(ctx context.Context, filter *fireoncev1.EventFilter, limit int, jobToo bool) (*feed, error) {
	project := callerOf(ctx).project
	query, err := eventsFromWire(project, filter)
	if err != nil {
		return nil, err
	}
	for _, key := range filter.GetIdempotencyKeys() {
		ref := store.Ref{Project: project, Key: key}
		snap, err := s.store.Job(ctx, ref)
		if err != nil {
			return nil, notFoundAs(fmt.Errorf("read the job: %w", err), jobNotFound(ref))
		}
		query.Jobs = append(query.Jobs, snap.ID)
	}
	if query.Connections, err = s.addNamedConnections(ctx, project, query.Connections, filter.GetConnectionKeys()); err != nil {
		return nil, err
	}
	if query.Schedule, err = s.namedSchedule(ctx, project, query.Schedule, filter.GetScheduleKey()); err != nil {
		return nil, err
	}
	query.Limit = limit
	return &feed{server: s, query: query, kind: logCursor, owner: s.tokens.owner(project), includeJob: jobToo, withoutContent: !callerOf(ctx).has(ScopePayloadsRead)}, nil
}

// after goes on after a cursor.
func (f *feed) after(cursor string) error {
	p, err := f.server.tokens.parseCursor(f.query.Project, cursor)
	if err != nil {
		return err
	}
	if p.kind == jobCursor {
		if only, oneJob := f.soleJob(); !oneJob || only != p.id {
			return refuse(fireoncev1.ErrorReason_ERROR_REASON_CURSOR_INVALID,
				"after_cursor is of one job's history; filter by that job alone", "field", "after_cursor")
		}
		f.ofJob()
	}
	f.query.After, f.query.Incarnation = p.at, p.incarnation
	return nil
}

// beginning begins with the oldest event that is kept.
func (f *feed) beginning(ctx context.Context) error {
	if _, oneJob := f.soleJob(); oneJob {
		f.ofJob()
		return nil
	}
	log, err := logEnd(ctx, f.server.store, f.query.Project)
	f.query.After, f.query.Incarnation = log.Begin, log.Incarnation
	return err
}

// now begins with what is written from now on.
func (f *feed) now(ctx context.Context) error {
	log, err := logEnd(ctx, f.server.store, f.query.Project)
	f.query.After, f.query.Incarnation = log.End, log.Incarnation
	return err
}

// ofJob makes the stream read the one job's history by its sequence: none of those events is
// ever too old.
func (f *feed) ofJob() {
	f.kind, f.job, f.query.Job, f.query.Jobs = jobCursor, f.query.Jobs[0], f.query.Jobs[0], nil
}

// soleJob reports whether a filter selects one job and nothing else.
func (f *feed) soleJob() (job.ID, bool) {
	q := f.query
	if len(q.Jobs) != 1 || len(q.Connections) > 0 || !q.Schedule.IsZero() || len(q.Labels) > 0 || q.Ended {
		return job.ID{}, false
	}
	return q.Jobs[0], true
}

// run sends events until the stream's life is over.
func (f *feed) run(ctx context.Context, life time.Duration) error {
	leave := f.server.tail.follow(ctx)
	defer leave()
	end := time.NewTimer(life)
	defer end.Stop()
	beat := time.NewTicker(f.server.cfg.Limits.Heartbeat)
	defer beat.Stop()
	// The first read comes before the first message, so that an unusable cursor is refused and
	// not answered.
	grown := f.server.tail.next()
	b := f.read(ctx, nil)
	if b.err != nil {
		return b.err
	}
	if err := f.checkPosition(b.page); err != nil {
		return err
	}
	if err := f.heartbeat(); err != nil {
		return err
	}
	for {
		if err := f.sendAll(ctx, b); err != nil {
			return err
		}
		beaten, done, err := f.wait(ctx, b.page.More, grown, end.C, beat.C)
		if done || err != nil {
			return err
		}
		grown = f.server.tail.next()
		if beaten {
			b = f.read(ctx, nil) // a shared read may be older than this heartbeat
		} else {
			b = f.read(ctx, grown)
		}
		if b.err != nil {
			return b.err
		}
	}
}

// checkPosition refuses a position that the log has not reached.
func (f *feed) checkPosition(page store.EventPage) error {
	if f.kind == logCursor && f.query.After > page.End {
		return refuse(fireoncev1.ErrorReason_ERROR_REASON_CURSOR_INVALID,
			"after_cursor is of a later state of the database than the present one", "field", "after_cursor")
	}
	return nil
}

// wait waits until the log is to be read again; not at all when more is there.
// It reports beaten after a heartbeat, and done when the stream's life is over.
func (f *feed) wait(ctx context.Context, more bool, grown <-chan struct{}, end, beat <-chan time.Time) (beaten, done bool, err error) {
	if more {
		now := make(chan struct{})
		close(now)
		grown = now
	}
	select {
	case <-ctx.Done():
		return false, true, ctx.Err()
	case <-f.server.streams.closing:
		return false, true, shuttingDown()
	case <-end:
		return false, true, nil
	case <-beat:
		if refused := f.server.auth.stillAdmitted(ctx); refused != nil {
			return false, true, refused
		}
		return true, false, f.heartbeat()
	case <-grown:
		return false, false, nil
	}
}

// read reads the next page; from the first one on, of that one's incarnation.
// With a generation of the tail it reads together with other streams.
func (f *feed) read(ctx context.Context, generation <-chan struct{}) *eventBatch {
	var b *eventBatch
	if generation == nil {
		b = f.load(ctx)
	} else {
		own := *f // the stream may leave before the read is done
		b = f.server.fanout.get(ctx, generation, f.key(), own.load)
	}
	if b.err == nil {
		f.query.Incarnation = b.page.Incarnation
		f.begun, f.caughtUp = true, !b.page.More
	}
	return b
}

// load reads a page from the store and makes its messages.
func (f *feed) load(ctx context.Context) *eventBatch {
	ctx, cancel := context.WithTimeout(ctx, f.server.cfg.Limits.DefaultDeadline)
	defer cancel()
	read := f.server.store.Events
	switch {
	case f.caughtUp: // this is no scan: what it reads is bounded by what was written since
		read = f.server.store.Store.Events
	case f.begun:
		read = f.server.store.nextEvents
	}
	page, err := read(ctx, f.query)
	switch {
	case errors.Is(err, store.ErrCursorExpired):
		return &eventBatch{err: f.expired(ctx, err)}
	case err != nil:
		return &eventBatch{err: notFoundAs(fmt.Errorf("read events: %w", err), jobNotFound(store.Ref{ID: f.job}))}
	}
	messages, err := f.messages(ctx, page)
	return &eventBatch{page: page, messages: messages, err: err}
}

// expired distinguishes a cursor that a restore made useless from one that is too old.
func (f *feed) expired(ctx context.Context, err error) error {
	meta, failed := f.server.store.Meta(ctx)
	if failed != nil || f.query.Incarnation == 0 || f.query.Incarnation == meta.Incarnation {
		return fmt.Errorf("read events: %w", err)
	}
	return refuse(fireoncev1.ErrorReason_ERROR_REASON_CURSOR_EXPIRED,
		"the database was restored or copied after this cursor was given, and its positions mean nothing any more; "+
			"call ListJobs, compare with what you have, and stream from its events_cursor", "field", "after_cursor")
}

// messages makes the messages of a page.
func (f *feed) messages(ctx context.Context, page store.EventPage) ([]*fireoncev1.StreamJobEventsResponse, error) {
	now, err := f.readNow(ctx, page.Events)
	if err != nil {
		return nil, err
	}
	out := make([]*fireoncev1.StreamJobEventsResponse, 0, len(page.Events))
	for _, e := range page.Events {
		changed := changeToWire(e)
		changed.Attempt = now.attempts[attemptKey{e.Job, e.Attempt}]
		changed.IdempotencyKey, changed.Labels = now.named[e.Job].Key, now.named[e.Job].Labels
		changed.ConnectionKey, changed.ScheduleKey = now.keys[e.Connection], now.keys[e.Schedule]
		changed.Job = now.jobs[changed.GetJobId()]
		at := e.Position
		if f.kind == jobCursor {
			at = e.Sequence
		}
		out = append(out, &fireoncev1.StreamJobEventsResponse{Event: &fireoncev1.JobEvent{
			Cursor: f.cursorAt(page.Incarnation, at), EventTime: timeToWire(e.At),
			Event: &fireoncev1.JobEvent_JobChanged{JobChanged: changed},
		}})
	}
	return out, nil
}

// sendAll sends a page's events and moves the position. It checks the key before each event: a
// slow reader may take minutes for a page.
func (f *feed) sendAll(ctx context.Context, b *eventBatch) error {
	for _, m := range b.messages {
		if refused := f.server.auth.stillAdmitted(ctx); refused != nil {
			return refused
		}
		if err := f.send(m); err != nil {
			return err
		}
	}
	f.query.After = b.page.Next
	return nil
}

type attemptKey struct {
	job    job.ID
	number int
}

// referred is what a page's events refer to, as read now.
type referred struct {
	attempts map[attemptKey]*fireoncev1.Attempt
	// named are the jobs that are stored still: history outlives them.
	named map[job.ID]store.JobName
	jobs  map[string]*fireoncev1.Job
	// keys are those of connections and schedules.
	keys map[job.ID]string
}

// readNow reads what a page's events refer to: the attempts of each job once, and all jobs,
// connections and schedules together.
func (f *feed) readNow(ctx context.Context, events []job.Event) (out referred, err error) {
	if len(events) == 0 {
		return out, nil
	}
	out = referred{attempts: map[attemptKey]*fireoncev1.Attempt{}, jobs: map[string]*fireoncev1.Job{}}
	first := map[job.ID]int{}
	var connections, schedules []job.ID
	for _, e := range events {
		if n, seen := first[e.Job]; !seen || n == 0 || e.Attempt > 0 && e.Attempt < n {
			first[e.Job] = e.Attempt
		}
		connections, schedules = append(connections, e.Connection), append(schedules, e.Schedule)
	}
	for id, n := range first {
		if n == 0 {
			continue
		}
		attempts, err := f.server.store.Attempts(ctx, store.Ref{Project: f.query.Project, ID: id}, n-1, store.MaxBatch)
		if err != nil && !errors.Is(err, store.ErrNotFound) {
			return out, fmt.Errorf("read attempts: %w", err)
		}
		for _, a := range attempts {
			out.attempts[attemptKey{id, a.Number}] = attemptToWire(a)
		}
	}
	ids := slices.Collect(maps.Keys(first))
	if out.named, err = f.server.store.JobNames(ctx, f.query.Project, ids); err != nil {
		return out, fmt.Errorf("read the names of jobs: %w", err)
	}
	if f.includeJob {
		page, err := f.server.store.List(ctx, store.JobQuery{Project: f.query.Project, Jobs: ids, Limit: len(ids)})
		if err != nil {
			return out, fmt.Errorf("read jobs: %w", err)
		}
		for _, j := range f.server.newJobConverter(ctx, f.query.Project).jobs(ctx, page.Jobs) {
			out.jobs[j.GetJobId()] = j
		}
	}
	out.keys, err = f.server.keys.keys(ctx, f.query.Project, connections, schedules)
	return out, err
}

func (f *feed) cursorAt(incarnation, at int64) string {
	return token{kind: f.kind, owner: f.owner, incarnation: incarnation, id: f.job, at: at}.String()
}

func (f *feed) heartbeat() error {
	return f.send(&fireoncev1.StreamJobEventsResponse{Event: &fireoncev1.JobEvent{
		Cursor: f.cursorAt(f.query.Incarnation, f.query.After),
		Event: &fireoncev1.JobEvent_Heartbeat{Heartbeat: &fireoncev1.Heartbeat{
			ServerTime: timestamppb.New(job.Micros(f.server.cfg.Now())),
		}},
	}})
}

func (f *feed) send(m *fireoncev1.StreamJobEventsResponse) error {
	if f.withoutContent {
		m = withoutContent(m) // other streams send the same message
	}
	if err := f.out.Send(m); err != nil {
		return fmt.Errorf("send an event: %w", err)
	}
	return nil
}
