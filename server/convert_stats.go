package server

import (
	"google.golang.org/protobuf/types/known/durationpb"

	fireoncev1 "github.com/fireonce/fireonce/gen/fireonce/v1"
	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/store"
)

// This file converts measurements.

func statsToWire(st store.Stats, meta store.Meta) *fireoncev1.GetStatsResponse {
	out := &fireoncev1.GetStatsResponse{
		OldestDueAge: durationpb.New(st.OldestDue), OldestUnresolvedAge: durationpb.New(st.OldestUnresolved),
		StartedCount: st.Started, RecoveredCount: st.Recovered,
		EventLag: durationpb.New(meta.EventLag), QuarantineReason: text(meta.Quarantined), AsOfTime: timeToWire(st.Now),
		ClockDoubt: text(clockWords(meta.Clock)),
	}
	if st.Started > 0 {
		out.StartLagP50, out.StartLagP99 = durationpb.New(st.StartLagP50), durationpb.New(st.StartLagP99)
	}
	for _, state := range job.States {
		out.StateCounts = append(out.StateCounts, &fireoncev1.GetStatsResponse_StateCount{
			State: stateToWire(state), Count: st.Counts[state],
		})
	}
	return out
}
