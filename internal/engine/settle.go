package engine

import (
	"context"
	"errors"
	"time"

	"github.com/fireonce/fireonce/internal/connector"
	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/internal/tracing"
	"github.com/fireonce/fireonce/store"
)

const (
	settlePause    = 50 * time.Millisecond
	settleMaxPause = 5 * time.Second
)

// settle makes one piece of evidence durable. It decides on what it knows,
// writes by compare-and-set, and when the job moved on meanwhile it reads and
// decides again: evidence addresses (job, attempt) and is never dropped for a
// version. It goes on until it is stored or the process ends, and then logs
// the evidence whole.
//
// token, when set, is the lease that the evidence speaks for: evidence about a
// lease that is no longer held is worthless and ends quietly.
//
// It gives the job as it was written, or as it was read when the evidence
// changes nothing, and whether the evidence is settled.
func (e *Engine) settle(w *tracing.Work, s *job.Snapshot, conn *store.Connection, ev job.Evidence, token job.ID) (after *job.Snapshot, stored bool) {
	step := w.Step(tracing.Settle)
	defer func() { step.Settled(after.State) }()
	traits := e.traits(conn, s.Class)
	ev = e.expired(conn, ev)
	pause := settlePause
	for {
		after, stale, err := e.settleOnce(w, s, conn, traits, ev)
		switch {
		case err == nil && !stale:
			e.Metrics.Settled(conn.Connector, s.Class, ev)
			return after, true
		case stale:
			pause = settlePause
		case errors.Is(err, store.ErrIllegal), errors.Is(err, store.ErrNotFound), errors.Is(err, errUndecidable):
			e.Log.ErrorContext(e.about(w, s), "evidence could not be applied", "job", s.ID.String(), "evidence", ev, "err", err)
			return s, false
		default:
			sleep(e.hard, pause)
			pause = min(2*pause, settleMaxPause)
		}
		if e.hard.Err() != nil {
			e.Log.ErrorContext(e.about(w, s), "shut down before this evidence was stored; the fence and the reconciler decide",
				"job", s.ID.String(), "evidence", ev)
			return s, false
		}
		fresh, err := e.read(s.ID)
		if err != nil {
			sleep(e.hard, pause) // a stale write does not wait by itself
			continue
		}
		if !token.IsZero() && fresh.ClaimToken != token {
			return fresh, false
		}
		s = fresh
	}
}

// expired adds why a credential was refused that is past its end, where nobody has said
// more.
func (e *Engine) expired(conn *store.Connection, ev job.Evidence) job.Evidence {
	if conn.CredentialExpires.IsZero() || conn.CredentialExpires.After(e.Clock.Read().Time) {
		return ev
	}
	switch v := ev.(type) {
	case job.Deferred:
		if v.Kind == job.FailAuth {
			v.Auth = moreExact(v.Auth, job.AuthExpired)
		}
		return v
	case job.Outcome:
		if v.Kind == job.FailAuth {
			v.Auth = moreExact(v.Auth, job.AuthExpired)
		}
		return v
	default:
		return ev
	}
}

var errUndecidable = errors.New("no decision")

// settleOnce decides and writes once. stale says that the job has moved on.
func (e *Engine) settleOnce(
	w *tracing.Work, s *job.Snapshot, conn *store.Connection, traits job.Traits, ev job.Evidence,
) (after *job.Snapshot, stale bool, err error) {
	changes, err := e.change(s, traits, ev)
	if err != nil {
		return s, false, errors.Join(errUndecidable, err)
	}
	d := &changes[0].Decision
	if d.Action != job.ActWrite {
		return s, false, nil
	}
	ctx, cancel := context.WithTimeout(e.hard, storeTimeout)
	defer cancel()
	applied, err := e.Store.Apply(ctx, changes)
	e.trouble.store(e.hard, opApply, err)
	if err != nil {
		return s, false, err
	}
	if errors.Is(applied[0].Err, store.ErrStale) {
		return s, true, nil
	}
	if applied[0].Err != nil {
		return s, false, applied[0].Err
	}
	if told := applied[0].Owner; !told.IsZero() {
		e.Log.ErrorContext(e.about(w, s), "the platform answered two jobs with one object; one of them may have no effect",
			"job", s.ID.String(), "other", told.String(), "taken", applied[0].TakenOver)
	}
	after = &applied[0].Snapshot
	after.Complete(&s.Spec)
	e.wrote(w, conn.Connector, s, after, d)
	return after, false, nil
}

// change returns the one change that the evidence leads to. It is apart because what it
// needs on the stack is large, and hundreds of goroutines wait for the store at a time.
//
//go:noinline
func (e *Engine) change(s *job.Snapshot, traits job.Traits, ev job.Evidence) ([]store.Change, error) {
	d, err := job.Decide(s.View(traits, e.Jitter()), ev)
	return []store.Change{{Job: s.ID, Version: s.Version, Decision: d, Actor: e.Worker}}, err
}

// about has the trace that log lines about a job belong to: that of the work, or the one
// that the job was submitted in.
func (*Engine) about(w *tracing.Work, s *job.Snapshot) context.Context {
	return tracing.Carrying(w.Context(), s.Trace)
}

func (e *Engine) read(id job.ID) (*job.Snapshot, error) {
	ctx, cancel := context.WithTimeout(e.hard, storeTimeout)
	defer cancel()
	s, err := e.Store.Job(ctx, store.Ref{ID: id})
	return &s, err
}

// Settle times where the connector cannot tell its own: no connector has longer
// ones.
const (
	carefulLag       = time.Hour
	carefulNegatives = 10
)

// traits are what is known of the target of a job of the class, without its
// credential. A connector without settle times has only what the connection states,
// and one that cannot tell them the longest. So has one whose class is another one
// by now, for jobs that were armed to be looked at: what it says is not about them.
func (e *Engine) traits(c *store.Connection, class job.Class) job.Traits {
	stated := job.Traits{Class: c.Class, KeyWindow: c.KeyWindow, Grace: e.Grace}
	found, _ := e.Connectors.Get(c.Connector)
	settler, ok := found.(connector.Settler)
	if !ok {
		return stated
	}
	own, err := settler.Traits(c.Settings)
	if err != nil {
		own = stated
	}
	if err != nil && own.Class == job.Observable || class == job.Observable && own.Class != job.Observable {
		own.ReadLag, own.Negatives, own.Spacing = carefulLag, carefulNegatives, carefulLag
	}
	own.Grace = e.Grace
	return own
}

// wrote follows a decision that was written: it lets go whoever waited for the
// job, and tells operators of the ends that need them. Where no effect can come of the
// decision the connector may be empty.
func (e *Engine) wrote(w *tracing.Work, connector string, before, s *job.Snapshot, d *job.Decision) {
	e.Metrics.Wrote(connector, before, s, d)
	if !s.State.Gated() {
		e.gates.ended(s.ID)
	}
	if d.Hold != nil {
		e.tellHold(e.about(w, before), connector, before, *d.Hold)
	}
	switch {
	case d.Cause == job.CauseDuplicateEffect:
		w.DuplicateSeen()
		e.Log.ErrorContext(e.about(w, before), "a second effect was seen", "job", s.ID.String(), "detail", d.Detail)
	case d.To == job.NeedsResolution:
		w.NeedsResolution()
		e.Log.WarnContext(e.about(w, before), "a job needs a person's decision", "job", s.ID.String(), "why", d.Detail)
	case d.To == job.Failed:
		e.Log.InfoContext(e.about(w, before), "job failed", "job", s.ID.String(), "why", d.Detail)
	}
}
