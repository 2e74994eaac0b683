package postgres

import (
	"bytes"
	"context"
	"fmt"
	"slices"

	"github.com/fireonce/fireonce/gen/pgdb"
	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/store"
	"github.com/fireonce/fireonce/store/logpage"
	"github.com/fireonce/fireonce/store/rules"
	"github.com/fireonce/fireonce/store/sqlstore"
)

// Rules of this file: the common end of a job, the success of its first attempt, is one
// statement that has all guards and writes the rows that pass them.
//   - It handles only what needs no judge: nothing to look up, to count or to release.
//   - If it skips a job, the whole batch is judged on locked rows, in a transaction that
//     begins again. So is a job for which another one waits, because that one has to be
//     locked with it.
//   - Changes of other kinds in the batch are locked after it, which breaks the lock order:
//     so they are locked only if they are free.

// commonSuccesses separates the changes of a batch that may be common successes, in the lock
// order, from the others. A job that is named twice is in neither case common.
func commonSuccesses(items []store.Change) (common, others []int) {
	times := make(map[job.ID]int, len(items))
	for i := range items {
		times[items[i].Job]++
	}
	for i := range items {
		if times[items[i].Job] == 1 && isCommonSuccess(&items[i]) {
			common = append(common, i)
		} else {
			others = append(others, i)
		}
	}
	slices.SortFunc(common, func(x, y int) int { return bytes.Compare(items[x].Job[:], items[y].Job[:]) })
	return common, others
}

// isCommonSuccess reports whether a change means that the first attempt has succeeded, of a
// job that never failed, and nothing else. Once it is written, its numbers are those of the
// row.
func isCommonSuccess(c *store.Change) bool {
	d := &c.Decision
	numbers := [...]int{d.Attempt, d.Round, d.Failures, d.Claims, d.Looks, d.Negatives, d.Misses}
	return d.Action == job.ActWrite && d.To == job.Succeeded && d.Cause == job.CauseAnswered &&
		numbers == [...]int{1, 1, 0, 0, 0, 0, 0} && isUnnamedEffect(d) && nothingElse(d) && c.Reason == "" && c.Content == nil
}

// isUnnamedEffect reports whether the first attempt is settled by an answer that names no
// object.
func isUnnamedEffect(d *job.Decision) bool {
	if len(d.Settle) != 1 || d.Effect == nil {
		return false
	}
	s, e := d.Settle[0], *d.Effect
	return s.Attempt == 1 && s.Result == job.ResultSucceeded && s.Kind == 0 && s.Handle == "" && s.Answer == nil && !s.PeerEnded &&
		d.CloseOpen == job.ResultSuperseded && sqlstore.InOwnRow(e) && e.Attempt == 1 && e.Round == 1
}

// nothingElse reports whether a decision records and moves nothing but a state.
func nothingElse(d *job.Decision) bool {
	moves := d.Cancel || d.Uncancel || d.NewWindow || d.WindowAgain || d.KeepTrying != 0 || d.Reschedule || d.Delay != 0 || d.Window != 0 || !d.StartAt.IsZero()
	records := d.LastError != nil || d.Ruling != nil || d.Hold != nil || d.Observed != nil
	return !moves && !records && d.Detail == "" && d.Blocked == ""
}

// applyCommon writes the common successes of a batch, and judges the others.
func (b *changeApplier) applyCommon(ctx context.Context, l *lockedRows, common, others []int) error {
	p, err := b.succeed(ctx, common, len(others) == 0)
	if err != nil {
		return err
	}
	if len(others) > 0 {
		ids := make([]job.ID, len(others))
		for n, i := range others {
			ids[n] = b.items[i].Job
		}
		ids = distinct(ids)
		b.queueFree(ctx, l, ids)
		if err := b.flush(ctx); err != nil {
			return err
		}
		if len(l.rows) < len(ids) {
			return errRestart
		}
		if b.locked, err = b.tx.locked(l, ids); err != nil {
			return err
		}
		b.shareClaimLocks(ctx)
		b.afterSuccess(ctx, p.Jobs)
		if err := b.judge(ctx, others, nil); err != nil {
			return err
		}
		// If all others were refused, the effects of the successes on other rows were not
		// read yet.
		if err := b.flush(ctx); err != nil {
			return err
		}
	}
	return b.finish(ctx)
}

// succeed writes common successes. Either all of them can be written, or the transaction
// begins again. If they are alone, it takes their claim locks itself, and reads together what
// they may have to start or to free.
func (b *changeApplier) succeed(ctx context.Context, which []int, alone bool) (pgdb.SucceedFirstParams, error) {
	p := pgdb.SucceedFirstParams{Now: b.now, Base: b.base, Alone: alone}
	at := make(map[job.ID]int, len(which))
	events := make([]logpage.Entry, len(which))
	for n, i := range which {
		c, e := &b.items[i], &events[n]
		e.Event = job.Event{Sequence: c.Version + 1, From: job.Sending, To: job.Succeeded, Cause: job.CauseAnswered, Attempt: 1, Actor: c.Actor}
		if err := b.place(e); err != nil {
			return p, err
		}
		addPlain(&p, c, e.Position, logpage.HistoryEntry(e.Event, e.Texts))
		at[c.Job] = n
	}
	var rows []pgdb.SucceedFirstRow
	b.queue(ctx, query("successes", (*pgdb.Queries).SucceedFirst, p, &rows))
	if alone {
		b.afterSuccess(ctx, p.Jobs)
	}
	if err := b.flush(ctx); err != nil {
		return p, err
	}
	if len(rows) < len(which) {
		return p, errRestart
	}
	for _, r := range rows {
		n := at[r.JobID]
		i, old := which[n], toSending(r)
		done := &plannedChange{Plan: rules.Plan{Change: b.items[i], Settlement: rules.Settlement{Settle: b.items[i].Decision.Settle}}, old: old, job: old.Decided(b.items[i].Decision, b.now)}
		effect := *done.Decision.Effect
		effect.At = b.now
		b.out[i].Snapshot = old.changed(done, b.now)
		b.out[i].Snapshot.Effect = &effect
		e := &events[n]
		e.Project, e.Job, e.Connection, e.Schedule, e.Class = old.Project, old.ID, old.Connection, old.Schedule, old.Class
		b.freed = append(b.freed, old.Connection)
		b.noteSchedule(done)
	}
	for _, e := range events {
		b.add(e)
	}
	return p, nil
}

// afterSuccess reads what may follow for other rows, once the claim locks are taken.
func (b *changeApplier) afterSuccess(ctx context.Context, done []job.ID) {
	b.queue(ctx, func(ctx context.Context, db pgdb.DBTX) error {
		r, err := pgdb.New(db).AfterSuccess(ctx, done)
		if err != nil {
			return fmt.Errorf("after successes: %w", err)
		}
		if r.Awaited {
			return errRestart
		}
		b.saturated = b.saturated || r.Saturated
		return nil
	})
}
