package schedule

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/fireonce/fireonce/internal/firing"
	"github.com/fireonce/fireonce/internal/recur"
	"github.com/fireonce/fireonce/internal/tracing"
	"github.com/fireonce/fireonce/store"
)

// Errors of Trigger and Backfill besides those of store.DueSchedules.Fire, Settle,
// *firing.BlockedError, firing.ErrDoubtful and firing.ErrEnded.
var (
	// ErrDeleted: the schedule was deleted.
	ErrDeleted = errors.New("the schedule was deleted")
	// ErrRange: a backfill's range has more firings than can be searched for.
	ErrRange = errors.New("the range has too many firings")
	// ErrRefused: firings of a backfill's range are due, and the decisions about them are refused.
	// A repeated call does not help.
	ErrRefused = errors.New("the schedule's decisions are refused")
	// ErrUndecided: firings of a backfill's range are due and not decided yet. The caller
	// repeats the call.
	ErrUndecided = errors.New("firings of the range are not decided yet")
)

const (
	// MaxBackfill bounds the jobs of one Backfill.
	MaxBackfill = store.MaxFiringJobs
	// BackfillKept is how far back a backfill may go: the ledger has each firing since then
	// that made a job.
	BackfillKept = store.FiringsKept - 24*time.Hour
	// maxLedgerPages bounds the pages of the ledger that one Backfill reads.
	maxLedgerPages = 120
	ledgerPage     = 500
	// triggerTries bounds how often a Trigger passes bad items of a queue. Each try refuses
	// some, and ten refusals in a row end it.
	triggerTries = 20
	// backfillTries bounds how often a Backfill reads the ledger again because the schedule
	// has changed meanwhile.
	backfillTries = 5
)

// Trigger makes the job of the trigger with a key now, as a part of the call's trace. created is
// false for a repeat, which returns the stored firing.
func (s *Scheduler) Trigger(ctx context.Context, ref store.Ref, key string, allowOverlap bool) (f store.Firing, created bool, err error) {
	for range triggerTries {
		f, created, err = s.trigger(ctx, ref, key, allowOverlap)
		if errors.Is(err, store.ErrUndecided) {
			if err := s.Settle(ctx, ref); err != nil {
				return f, false, err
			}
			continue
		}
		if !errors.Is(err, firing.ErrMoreItems) {
			break
		}
	}
	return f, created, err
}

func (s *Scheduler) trigger(ctx context.Context, ref store.Ref, key string, allowOverlap bool) (f store.Firing, created bool, err error) {
	var refused error
	var known *store.Firing
	name, trace := firing.TriggerName(key), tracing.Submitted(ctx)
	out, _, err := s.cfg.Store.Fire(ctx, store.FireParams{Only: ref, Limit: 1, Names: []string{name}, Decide: func(due store.DueSchedule) store.FireDecision {
		refused, known = nil, nil
		if f, ok := due.Known[name]; ok {
			// Before any check that may refuse: the repeat's own job may block it, or may have been the last one.
			known = &f
			return store.FireDecision{Schedule: due.Schedule}
		}
		d, err := s.ask(due, func(plan firing.Plan) (store.FireDecision, error) {
			return firing.Trigger(due, plan, key, allowOverlap)
		})
		refused = err
		for i := range d.Firings {
			if f := &d.Firings[i]; f.Firing.Name == name && f.Job != nil {
				f.Job.Spec.Trace = trace
			}
		}
		return d
	}})
	s.count(out)
	if err == nil && known != nil {
		return *known, false, nil // in every state of the schedule
	}
	made, err := verdict(out, err, refused)
	if err != nil {
		return f, false, err
	}
	i := slices.IndexFunc(made, func(f store.FiredFiring) bool { return f.Firing.Name == name })
	if i < 0 {
		return f, false, fmt.Errorf("a trigger made %d firings, and not its own", len(made))
	}
	return made[i].Firing, !made[i].Repeat, nil
}

// ask decides about a schedule that a client named.
func (s *Scheduler) ask(due store.DueSchedule, decide func(firing.Plan) (store.FireDecision, error)) (store.FireDecision, error) {
	nothing := store.FireDecision{Schedule: due.Schedule}
	if due.Schedule.State == store.ScheduleDeleted {
		return nothing, ErrDeleted
	}
	plan, err := s.plans.of(due.Schedule)
	if err != nil {
		return nothing, err
	}
	return decide(s.firingPlan(plan, due))
}

// verdict returns the result for the one schedule that a client named.
func verdict(out []store.Fired, err, refused error) ([]store.FiredFiring, error) {
	switch {
	case err != nil:
		return nil, err
	case refused != nil:
		return nil, refused
	case len(out) != 1:
		return nil, fmt.Errorf("%d schedules instead of one", len(out))
	case out[0].Err != nil:
		return nil, out[0].Err
	}
	for _, f := range out[0].Firings {
		if f.Job.Err != nil {
			return nil, f.Job.Err
		}
	}
	return out[0].Firings, nil
}

// Backfilled is the result of one Backfill: the firings that it made, or would make.
type Backfilled struct {
	Firings []store.Firing
	// Empty are firings that found no item in the queue. They are not stored. Without admit
	// there are none: see Share.
	Empty []store.Firing
	// Present counts times of the range that have a job already.
	Present int
	// Next is where the next call begins; zero: the range is done.
	Next time.Time
}

// Share moves firings to Empty for which no item is left, where items is how many wait.
func (b *Backfilled) Share(items int) {
	for _, f := range b.Firings[min(items, len(b.Firings)):] {
		b.Empty = append(b.Empty, firing.Emptied(f))
	}
	b.Firings = b.Firings[:min(items, len(b.Firings))]
}

// Backfill makes jobs for the nominal times from an instant on and before another one that
// have none, at most MaxBackfill. It calls admit with a number of jobs before it makes them,
// possibly more than once, and returns its error. If admit is nil, it makes no jobs and returns
// those that it would make. The caller ensures that the range is in the past, and bounds it by
// BackfillKept.
func (s *Scheduler) Backfill(ctx context.Context, ref store.Ref, from, until time.Time, admit func(jobs int) error) (Backfilled, error) {
	for try := 1; ; try++ {
		out, err := s.backfill(ctx, ref, from, until, admit)
		if !errors.Is(err, store.ErrStale) || try == backfillTries {
			return out, err
		}
	}
}

func (s *Scheduler) backfill(ctx context.Context, ref store.Ref, from, until time.Time, admit func(jobs int) error) (Backfilled, error) {
	sched, err := s.cfg.Store.Schedule(ctx, ref)
	if err != nil {
		return Backfilled{}, err
	}
	ref = store.Ref{Project: sched.Project, ID: sched.ID}
	if err := s.lost(ctx, sched); err != nil {
		return Backfilled{}, err
	}
	plan, err := s.plans.of(sched)
	if err != nil {
		return Backfilled{}, err
	}
	switch waits, err := undecided(ctx, plan, sched, until); {
	case err != nil:
		return Backfilled{}, err
	case waits:
		return Backfilled{}, whyUndecided(sched)
	}
	present, err := s.present(ctx, ref, sched, from)
	if err != nil {
		return Backfilled{}, err
	}
	// The ledger and the schedule agree as long as the schedule's revision stays the same.
	beats, more, err := Preview(ctx, plan.Times, from, until, MaxBackfill)
	if err != nil {
		return Backfilled{}, err
	}
	if more && len(beats) == 0 {
		return Backfilled{}, ErrRange
	}
	return s.fill(ctx, ref, sched.Revision, beats, more, present, admit)
}

// fill makes the jobs of those firings that are not present, or without admit only lists them.
// more: there are later ones.
func (s *Scheduler) fill(
	ctx context.Context, ref store.Ref, revision int64, beats []recur.Beat, more bool, there presence, admit func(jobs int) error,
) (out Backfilled, err error) {
	missing := slices.DeleteFunc(slices.Clone(beats), there.has)
	if more {
		out.Next = beats[len(beats)-1].Instant.Add(time.Second)
	}
	var left firing.Left
	switch {
	case len(missing) == 0:
	case admit == nil:
		for _, b := range missing {
			out.Firings = append(out.Firings, firing.Planned(b, store.FiredByBackfill))
		}
	default:
		if err := admit(len(missing)); err != nil {
			return Backfilled{}, err
		}
		if out.Firings, left, err = s.makeUp(ctx, ref, revision, missing); err != nil {
			return Backfilled{}, err
		}
	}
	out.leave(left)
	for _, b := range beats {
		if there.has(b) && (out.Next.IsZero() || b.Instant.Before(out.Next)) {
			out.Present++
		}
	}
	return out, nil
}

// leave records the times for which a backfill made no jobs.
func (b *Backfilled) leave(left firing.Left) {
	for _, beat := range left.Empty {
		b.Empty = append(b.Empty, firing.Emptied(firing.Planned(beat, store.FiredByBackfill)))
	}
	if len(left.Later) > 0 {
		b.Next = left.Later[0].Instant
	}
}

// lost fails as firing.Lost does, and with ErrDeleted. If a decision must come first, it makes
// that decision and returns ErrStale, because the schedule has changed.
func (s *Scheduler) lost(ctx context.Context, sched store.Schedule) error {
	if sched.State == store.ScheduleDeleted {
		return ErrDeleted
	}
	err := firing.Lost(sched)
	if errors.Is(err, store.ErrUndecided) {
		if err = s.Settle(ctx, store.Ref{Project: sched.Project, ID: sched.ID}); err == nil {
			err = store.ErrStale
		}
	}
	return err
}

// undecided reports whether the schedule itself may still fire for a nominal time before an
// instant.
func undecided(ctx context.Context, plan *Plan, sched store.Schedule, until time.Time) (bool, error) {
	if sched.State != store.ScheduleActive {
		return false, nil // it continues from when it is resumed
	}
	c, err := firing.At(plan.Times, sched.Cursor)
	if err != nil {
		return false, errDamaged("cursor", err)
	}
	beats, more, err := walk(ctx, plan.Times, c, until, 1)
	return len(beats) > 0 || more, err
}

// whyUndecided returns why firings of a schedule are due and not decided.
func whyUndecided(sched store.Schedule) error {
	switch b := sched.Buffered; {
	case sched.RefusedDecisions > 1:
		return ErrRefused
	case b != nil && !sched.CatchUp.Began.IsZero():
		return &firing.BlockedError{Job: b.Blocking}
	default:
		return ErrUndecided
	}
}

// makeUp stores jobs for times that have none.
func (s *Scheduler) makeUp(ctx context.Context, ref store.Ref, revision int64, missing []recur.Beat) (firings []store.Firing, left firing.Left, err error) {
	var refused error
	names := make([]string, len(missing))
	for i, b := range missing {
		names[i] = firing.BackfillName(b.Name)
	}
	out, _, err := s.cfg.Store.Fire(ctx, store.FireParams{Only: ref, Limit: 1, Names: names, Decide: func(due store.DueSchedule) store.FireDecision {
		d, err := s.ask(due, func(plan firing.Plan) (d store.FireDecision, err error) {
			if due.Schedule.Revision != revision {
				return store.FireDecision{Schedule: due.Schedule}, store.ErrStale
			}
			d, left, err = firing.Backfill(due, plan, missing)
			return d, err
		})
		refused = err
		return d
	}})
	s.count(out)
	made, err := verdict(out, err, refused)
	if err != nil {
		return nil, left, err
	}
	for _, f := range made {
		if f.Firing.Outcome == store.FiringFired { // beside them may be the buffered one, which max_firings drops
			firings = append(firings, f.Firing)
		}
	}
	return firings, left, nil
}

// presence holds the nominal times that have a job, or may get one: by their instants, because
// another version of the spec has other names, and by their names, because other zone data had
// them at other instants.
type presence struct {
	instants map[int64]bool
	names    map[string]bool
}

func (p presence) has(b recur.Beat) bool { return p.instants[b.Instant.Unix()] || p.names[b.Name] }

func (p presence) add(f store.Firing) {
	p.instants[f.Nominal.Unix()] = true
	p.names[firing.MadeUp(f.Name)] = true
}

// present returns the presence from an instant on.
func (s *Scheduler) present(ctx context.Context, ref store.Ref, sched store.Schedule, from time.Time) (presence, error) {
	out := presence{make(map[int64]bool), make(map[string]bool)}
	if b := sched.Buffered; b != nil {
		out.add(*b)
	}
	q := store.FiringQuery{Project: ref.Project, Schedule: ref.ID, Outcomes: []store.FiringOutcome{store.FiringFired}, Limit: ledgerPage}
	for range maxLedgerPages {
		page, err := s.cfg.Store.Firings(ctx, q)
		if err != nil {
			return out, err
		}
		for _, f := range page.Firings {
			if f.Decided.Before(from.Add(-clockChange)) {
				// No firing is decided before its time. With other zone data, its time was not much earlier.
				return out, nil
			}
			if f.Origin != store.FiredByTrigger {
				out.add(f)
			}
		}
		if page.Next == 0 {
			return out, nil
		}
		q.Before = page.Next
	}
	return out, ErrRange
}
