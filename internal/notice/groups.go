package notice

import (
	"bytes"
	"cmp"
	"slices"

	"github.com/fireonce/fireonce/internal/job"
)

// group is the events of one connection with one new state and cause.
type group struct {
	connection job.ID
	state      job.State
	cause      job.Cause
	count      int64
	first      int // the place of its first event
}

// groups returns the largest groups of events, at most MaxGroups.
func groups(events []told) []group {
	type key struct {
		connection job.ID
		state      job.State
		cause      job.Cause
	}
	of := make(map[key]*group)
	var all []*group
	for i, e := range events {
		k := key{e.Connection, e.To, e.Cause}
		g := of[k]
		if g == nil {
			g = &group{connection: e.Connection, state: e.To, cause: e.Cause, first: i}
			of[k], all = g, append(all, g)
		}
		g.count++
	}
	slices.SortFunc(all, func(a, b *group) int {
		return cmp.Or(-cmp.Compare(a.count, b.count), cmp.Compare(a.first, b.first), bytes.Compare(a.connection[:], b.connection[:]))
	})
	out := make([]group, 0, min(len(all), MaxGroups))
	for _, g := range all[:min(len(all), MaxGroups)] {
		out = append(out, *g)
	}
	return out
}

// examples returns the first events of each group, at most MaxExamples, in the order of the log.
func examples(events []told) []job.Event {
	left := make(map[group]int)
	var out []job.Event
	for _, e := range events {
		k := group{connection: e.Connection, state: e.To, cause: e.Cause}
		if _, seen := left[k]; !seen {
			left[k] = groupExamples
		}
		if left[k]--; left[k] >= 0 && len(out) < MaxExamples {
			out = append(out, e.Event)
		}
	}
	return out
}
