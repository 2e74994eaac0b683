package server

import (
	"cmp"
	"maps"
	"slices"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/fireonce/fireonce/clients/go/adminv1"
	"github.com/fireonce/fireonce/clients/go/fireoncev1"
	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/store"
)

// This file converts measurements.

func statsToWire(st store.Stats, meta store.Meta) *adminv1.GetStatsResponse {
	out := &adminv1.GetStatsResponse{
		OldestDueAge: durationpb.New(st.OldestDue), OldestUnresolvedAge: durationpb.New(st.OldestUnresolved),
		StartedCount: st.Started, RecoveredCount: st.Recovered,
		EventLag: durationpb.New(meta.EventLag), QuarantineReason: text(meta.Quarantined), AsOfTime: timeToWire(st.Now),
		ClockDoubt: clockToWire(meta.Clock),
	}
	if st.Started > 0 {
		out.StartLagP50, out.StartLagP99 = durationpb.New(st.StartLagP50), durationpb.New(st.StartLagP99)
	}
	for _, state := range job.States {
		out.StateCounts = append(out.StateCounts, stateCount(state, st.Counts[state]))
	}
	return out
}

func stateCount(s job.State, n int64) *adminv1.StateCount {
	return &adminv1.StateCount{State: stateToWire(s), Phase: phaseToWire(s), Count: n}
}

// addToPhase adds the jobs of a state to those of its phase.
func addToPhase(out *adminv1.CountJobsResponse, n *adminv1.StateCount) {
	i, found := slices.BinarySearchFunc(out.GetPhaseCounts(), n.GetPhase(), func(c *adminv1.PhaseCount, p fireoncev1.Phase) int {
		return cmp.Compare(c.GetPhase(), p)
	})
	if !found {
		out.PhaseCounts = slices.Insert(out.GetPhaseCounts(), i, &adminv1.PhaseCount{Phase: n.GetPhase()})
	}
	out.PhaseCounts[i].Count += n.GetCount()
	out.PhaseCounts[i].Capped = out.PhaseCounts[i].Capped || n.GetCapped()
}

func countsToWire(q store.JobQuery, by store.GroupBy, counts store.JobCounts, keys map[job.ID]string) *adminv1.CountJobsResponse {
	out := &adminv1.CountJobsResponse{AsOfTime: timeToWire(counts.Now)}
	for _, state := range q.CountedStates() {
		n := counts.States[state]
		counted := stateCount(state, n.Count)
		counted.Capped = n.Capped
		out.StateCounts = append(out.StateCounts, counted)
		addToPhase(out, counted)
		out.Count += n.Count
		out.Capped = out.Capped || n.Capped
	}
	for _, g := range counts.Groups {
		group := &adminv1.CountJobsResponse_Group{Count: g.Count, ConnectionKey: keys[g.Connection]}
		switch by {
		case store.ByConnection:
			group.Value = &adminv1.CountJobsResponse_Group_ConnectionId{ConnectionId: g.Connection.String()}
		case store.ByClass:
			group.Value = &adminv1.CountJobsResponse_Group_EffectClass{EffectClass: fireoncev1.EffectClass(g.Class)}
		case store.ByErrorKind:
			group.Value = &adminv1.CountJobsResponse_Group_ErrorKind{ErrorKind: failureToWire(g.ErrorKind)}
		case store.ByNothing:
		}
		out.Groups = append(out.Groups, group)
	}
	return out
}

func seriesToWire(req *adminv1.QueryStatsRequest, series store.Series, keys map[job.ID]string) *adminv1.QueryStatsResponse {
	out := &adminv1.QueryStatsResponse{AsOfTime: timeToWire(series.AsOf)}
	wants := func(m adminv1.StatsMeasure) bool {
		return len(req.GetMeasures()) == 0 || slices.Contains(req.GetMeasures(), m)
	}
	for _, r := range series.Rows {
		row := &adminv1.StatsRow{
			StartTime: timeToWire(r.Start), Connector: r.Connector, EffectClass: fireoncev1.EffectClass(r.Class),
			ConnectionId: idToWire(r.Connection), ConnectionKey: keys[r.Connection],
		}
		if wants(adminv1.StatsMeasure_STATS_MEASURE_THROUGHPUT) {
			row.ScheduledCount, row.StartedCount = r.Counts[store.CountScheduled], r.Counts[store.CountStarted]
			row.AttemptCount = r.Counts[store.CountAttempts]
		}
		if wants(adminv1.StatsMeasure_STATS_MEASURE_START_LAG) {
			row.StartLag = histogramToWire(r.Bins[store.CountStarted], req.GetIncludeBins())
		}
		if wants(adminv1.StatsMeasure_STATS_MEASURE_OUTCOMES) {
			row.EndedCounts = endsToWire(r)
		}
		if wants(adminv1.StatsMeasure_STATS_MEASURE_UNKNOWNS) {
			unknownsToWire(row, r, req.GetIncludeBins())
		}
		out.Rows = append(out.Rows, row)
	}
	return out
}

func endsToWire(r store.SeriesRow) []*adminv1.StateCount {
	var out []*adminv1.StateCount
	for _, state := range job.States {
		if n := r.Counts[store.CountEnded+store.Measure(state)]; state.Terminal() && n > 0 {
			out = append(out, stateCount(state, n))
		}
	}
	return out
}

func unknownsToWire(row *adminv1.StatsRow, r store.SeriesRow, bins bool) {
	row.UnknownCount = r.Counts[store.CountUnknown]
	all := make(map[int]int64)
	for _, how := range store.Knowns {
		m := store.CountKnown + store.Measure(how)
		n := r.Counts[m]
		if n == 0 {
			continue
		}
		row.SettledCounts = append(row.SettledCounts, &adminv1.StatsRow_SettledCount{By: adminv1.SettledBy(how), Count: n})
		if how == store.KnownFound || how == store.KnownRepeated {
			row.RecoveredCount += n
		}
		for bin, n := range r.Bins[m] {
			all[bin] += n
		}
	}
	row.TimeToSettle = histogramToWire(all, bins)
}

// histogramToWire returns percentiles by the nearest rank, as the upper bounds of their bins.
func histogramToWire(bins map[int]int64, withBins bool) *adminv1.Histogram {
	out := &adminv1.Histogram{}
	order := slices.Sorted(maps.Keys(bins))
	for _, bin := range order {
		out.Count += bins[bin]
		if withBins {
			out.Bins = append(out.Bins, &adminv1.Histogram_Bin{UpperBound: boundToWire(bin), Count: bins[bin]})
		}
	}
	rank := func(percent int64) *durationpb.Duration {
		below := (out.Count*percent + 99) / 100
		for _, bin := range order {
			if below -= bins[bin]; below <= 0 {
				return boundToWire(bin)
			}
		}
		return nil
	}
	if out.Count > 0 {
		out.P50, out.P90, out.P99 = rank(50), rank(90), rank(99)
	}
	return out
}

func boundToWire(bin int) *durationpb.Duration {
	if bin >= store.LastBin {
		return nil
	}
	return durationpb.New(store.BinBound(bin))
}
