package notice

import (
	"context"
	"errors"
	"math"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/fireonce/fireonce/clients/go/subscriptionsv1"
	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/store"
)

// tell decides about the events that were not reported. write reports whether the step is to be
// written, more whether there is more to read.
func (r *Runner) tell(ctx context.Context, d store.DueSubscription, p *store.SubscriptionStep) (write, more bool, err error) {
	s := &p.Subscription
	spec, err := SpecOf(d.Subscription)
	if err != nil {
		return false, false, err
	}
	if spec.Stated.GetFilter().GetHolds() {
		return r.holds(ctx, d, p, spec)
	}
	spec.forPeople = forPeople(d.Connection.Connector)
	mem, err := readMemory(d.Subscription)
	if err != nil {
		return false, false, err
	}
	position := s.Position
	at, cached := r.seen[s.ID]
	if cached = cached && at.revision == s.Revision; cached {
		position, mem = at.position, at.memory
	}
	read, incarnation, err := r.read(ctx, s.Project, spec, position)
	if err != nil {
		return false, false, err
	}
	v := spec.judge(read, mem, d.Now)
	moved := s.Incarnation != incarnation || s.OnlyThen != v.onlyThen || earlier(*s, v.next, d.Now)
	p.Subscription.Position, p.Subscription.Incarnation, p.Subscription.Memory = v.position, incarnation, v.memory.encode()
	s.Next, s.OnlyThen = v.next, v.onlyThen
	if v.kind == 0 {
		if !cached {
			at.since = d.Now
		}
		r.seen[s.ID] = place{revision: s.Revision, position: v.position, memory: v.memory, since: at.since}
		return moved || v.position != d.Subscription.Position && d.Now.Sub(at.since) >= unwritten, read.more, nil
	}
	l, err := r.letter(ctx, d, p, spec, &v, position)
	if err != nil {
		return false, false, err
	}
	return true, false, r.carry(d, p, l)
}

// earlier reports whether the stored time of the next step is later than it should be, or over. One
// that is too early costs one look.
func earlier(s store.Subscription, next, now time.Time) bool {
	over := !s.Next.IsZero() && !s.Next.After(now)
	if next.IsZero() {
		return over
	}
	return over || s.Next.IsZero() || next.Before(s.Next)
}

// read reads the log behind a position.
func (r *Runner) read(ctx context.Context, project string, spec *Spec, after int64) (out reading, incarnation int64, err error) {
	out = reading{after: after, next: after, names: make(map[job.ID]store.JobName)}
	q := store.EventQuery{Project: project, Limit: store.MaxBatch, Connections: spec.connections}
	for range reads {
		q.After = out.next
		page, err := r.cfg.Store.Events(ctx, q)
		if errors.Is(err, store.ErrCursorExpired) && !out.lost {
			end, err := r.cfg.Store.Events(ctx, store.EventQuery{Project: project, After: math.MaxInt64, Limit: 1})
			if err != nil {
				return out, 0, err
			}
			out.lost, out.after, out.next = true, end.Begin, end.Begin
			continue
		}
		if err != nil {
			return out, 0, err
		}
		incarnation, out.next, out.more = page.Incarnation, page.Next, page.More
		var unnamed []job.ID
		for _, e := range page.Events {
			if !spec.selects(e) && !spec.succeeds(e) {
				continue
			}
			if out.events = append(out.events, e); spec.byName() {
				unnamed = append(unnamed, e.Job)
			}
		}
		if len(unnamed) > 0 {
			names, err := r.cfg.Store.JobNames(ctx, project, unnamed)
			if err != nil {
				return out, 0, err
			}
			for id, name := range names {
				out.names[id] = name
			}
		}
		if !page.More {
			break
		}
	}
	return out, incarnation, nil
}

// letter writes a notice of events, and adds it to the step. It may tell fewer events than the
// verdict, which then come in the next notice.
func (r *Runner) letter(
	ctx context.Context, d store.DueSubscription, p *store.SubscriptionStep, spec *Spec, v *verdict, after int64,
) (letter, error) {
	s := &p.Subscription
	data := r.data(s, v.kind, s.Number+1)
	shown := examples(v.events)
	if v.kind == store.NoticeEvents {
		shown = shown[:0]
		for _, e := range v.events {
			shown = append(shown, e.Event)
		}
	}
	wired, err := r.cfg.Wire.NoticeEvents(ctx, s.Project, store.EventPage{Events: shown, Incarnation: s.Incarnation}, spec.Stated.GetIncludeContent())
	if err != nil {
		return letter{}, err
	}
	if v.kind == store.NoticeEvents {
		if n := fit(wired); n < len(wired) {
			wired, v.memory, v.position, v.events = wired[:n], v.after[n-1], v.events[n-1].Position, v.events[:n]
			s.Position, s.Memory = v.position, v.memory.encode()
		}
		data.Events = wired
	} else if len(v.events) > 0 {
		var ids []job.ID
		for _, g := range groups(v.events) {
			ids = append(ids, g.connection)
		}
		keys, err := r.cfg.Wire.ConnectionKeys(ctx, s.Project, ids)
		if err != nil {
			return letter{}, err
		}
		data.Digest = digest(v.events, keys, r.cfg.Wire.NoticeCause, wired)
	}
	data.AfterCursor = r.cfg.Wire.NoticeCursor(s.Project, s.Incarnation, after)
	data.Cursor = r.cfg.Wire.NoticeCursor(s.Project, s.Incarnation, v.position)
	if data.EventsLost = v.memory.Lost; v.memory.Lost {
		v.memory.Lost = false
		s.Memory = v.memory.encode()
	}
	if !v.silentSince.IsZero() {
		data.SilenceStartTime = timestamppb.New(v.silentSince)
	}
	p.Notice = &store.Notice{Kind: v.kind, After: min(after, v.position), To: v.position, Events: int64(len(v.events))}
	return r.write(d, data)
}

// data returns a notice without what it reports.
func (r *Runner) data(s *store.Subscription, kind store.NoticeKind, number int64) *subscriptionsv1.NoticeData {
	out := &subscriptionsv1.NoticeData{
		SubscriptionId: s.ID.String(), ProjectId: s.Project, Number: number, Kind: subscriptionsv1.NoticeKind(kind),
	}
	if !s.Callbacks {
		out.SubscriptionKey = s.Key
	}
	return out
}

func (r *Runner) write(d store.DueSubscription, data *subscriptionsv1.NoticeData) (letter, error) {
	var l letter
	if forPeople(d.Connection.Connector) {
		l.subject, l.text = words(data, d.Subscription.DisplayName, r.cfg.Link)
		return l, nil
	}
	var err error
	l.json, err = body(&subscriptionsv1.Notice{
		Type: "fireonce.notice." + types[store.NoticeKind(data.GetKind())], Timestamp: timestamppb.New(d.Now), Data: data,
	})
	return l, err
}

// test makes a notice that says that it is a test.
func (r *Runner) test(d store.DueSubscription, p *store.SubscriptionStep) error {
	s := &p.Subscription
	s.Asked = 0
	data := r.data(s, store.NoticeTest, s.Number+1)
	data.AfterCursor = r.cfg.Wire.NoticeCursor(s.Project, s.Incarnation, s.Position)
	data.Cursor = data.GetAfterCursor()
	p.Notice = &store.Notice{Kind: store.NoticeTest, After: s.Position, To: s.Position}
	l, err := r.write(d, data)
	if err != nil {
		return err
	}
	return r.carry(d, p, l)
}
