package postgres

import (
	"bytes"
	"context"
	"fmt"
	"slices"

	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/store"
	"github.com/fireonce/fireonce/store/rules"
)

// usualArms tells the items that may be first arms, in the order of the locks, from
// those that are surely others: repeats, arms with a gate, and jobs that are named
// twice.
func usualArms(items []store.Arm) (usual, others []int) {
	times := make(map[job.ID]int, len(items))
	for _, a := range items {
		times[a.Job]++
	}
	for i, a := range items {
		if a.Rearm || len(a.Gate) > 0 || times[a.Job] > 1 {
			others = append(others, i)
		} else {
			usual = append(usual, i)
		}
	}
	slices.SortFunc(usual, func(x, y int) int { return bytes.Compare(items[x].Job[:], items[y].Job[:]) })
	return usual, others
}

// first arms the jobs for which every guard of a first arm holds, and gives back the
// items for which one does not.
func (b *arming) first(ctx context.Context, which []int) (left []int, err error) {
	if b.quarantined != "" || b.doubt.Stands {
		return which, nil
	}
	before := b.newest
	intents := make([]*intent, len(which))
	at := make(map[job.ID]*intent, len(which))
	for n, i := range which {
		a := b.items[i]
		in := &intent{Arm: a, index: i}
		if in.position, err = b.next(); err != nil {
			return nil, err
		}
		intents[n], at[a.Job] = in, in
	}
	rows, err := b.q.ArmFirst(ctx, firstColumns(intents, b.now, b.base))
	if err != nil {
		return nil, fmt.Errorf("arm jobs: %w", err)
	}
	// A position that is not used is that of no event.
	b.newest = before
	for _, r := range rows {
		in := at[toID(r.JobID)]
		b.newest = max(b.newest, in.position)
		in.next, in.attempt = rules.Begin(in.Arm, b.armable(toFirstArmed(r, in, b.now), false))
		b.out[in.index] = store.Armed{Snapshot: in.next, Attempt: in.attempt}
	}
	for n, in := range intents {
		if in.next.State != job.Sending {
			left = append(left, which[n])
		}
	}
	return left, nil
}
