package server_test

import (
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/fireonce/fireonce/clients/go/adminv1"
	"github.com/fireonce/fireonce/clients/go/fireoncev1"
	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/store"
)

const (
	countJobs  = statsPath + "CountJobs"
	queryStats = statsPath + "QueryStats"
)

// roll counts all events.
func (f *fixture) roll() {
	f.tb.Helper()
	for more := true; more; {
		r, err := f.store.Roll(f.tb.Context(), store.RollParams{Owner: job.ID{1}, Lease: time.Minute})
		f.must(err)
		more = r.More
	}
}

// TestQueryStats: a job that succeeds, one whose unknown outcome is settled by a person, and
// one to come, by hours over each protocol.
func TestQueryStats(t *testing.T) {
	overEach(t, func(t *testing.T, f *fixture, c client) {
		begun := f.clock.Now()
		f.schedule(f.request("a"))
		armed := f.arm()
		f.learn(armed.ID, job.Outcome{Attempt: 1, Result: job.ResultSucceeded})
		f.schedule(f.request("b"))
		unknown := f.needResolution()
		f.learn(unknown.ID, job.Resolved{Ruling: job.RuleNotSent, Actor: "ann"})
		f.schedule(f.request("to-come", at(f.clock.Now().Add(100*time.Hour))))
		req := &adminv1.QueryStatsRequest{
			Bucket: adminv1.StatsBucket_STATS_BUCKET_DAY, StartTime: timestamppb.New(begun), IncludeBins: true,
			Dimensions: []adminv1.StatsDimension{adminv1.StatsDimension_STATS_DIMENSION_CONNECTION, adminv1.StatsDimension_STATS_DIMENSION_CONNECTOR},
			Filter:     &adminv1.StatsFilter{ConnectionIds: []string{f.conn}},
		}
		before, err := ask[adminv1.QueryStatsResponse](t, c, queryStats, req)
		f.must(err)
		if len(before.GetRows()) != 0 || before.GetAsOfTime().AsTime().After(begun) {
			t.Errorf("before anything is counted: %v", before)
		}
		f.roll()
		got, err := ask[adminv1.QueryStatsResponse](t, c, queryStats, req)
		f.must(err)
		if len(got.GetRows()) != 1 || got.GetAsOfTime().AsTime().Before(begun) {
			t.Fatalf("answer %v", got)
		}
		r := got.GetRows()[0]
		if r.GetConnectionId() != f.conn || r.GetConnector() == "" || r.GetEffectClass() != 0 ||
			r.GetStartTime().AsTime() != store.Day.Start(begun) {
			t.Errorf("row %v", r)
		}
		if r.GetScheduledCount() != 3 || r.GetStartedCount() != 2 || r.GetAttemptCount() < 2 ||
			r.GetStartLag().GetCount() != 2 || r.GetStartLag().GetP99() == nil || len(r.GetStartLag().GetBins()) == 0 {
			t.Errorf("throughput of %v", r)
		}
		if e := r.GetEndedCounts(); len(e) != 2 || e[0].GetState() != fireoncev1.JobState_JOB_STATE_SUCCEEDED || e[0].GetCount() != 1 ||
			e[1].GetState() != fireoncev1.JobState_JOB_STATE_FAILED || e[1].GetCount() != 1 {
			t.Errorf("ends %v", e)
		}
		if s := r.GetSettledCounts(); r.GetUnknownCount() != 1 || len(s) != 1 || s[0].GetBy() != adminv1.SettledBy_SETTLED_BY_PERSON ||
			r.GetRecoveredCount() != 0 || r.GetTimeToSettle().GetCount() != 1 {
			t.Errorf("unknown outcomes of %v", r)
		}
		req.Measures = []adminv1.StatsMeasure{adminv1.StatsMeasure_STATS_MEASURE_OUTCOMES}
		req.Filter.Connectors = []string{"another"}
		if got, err = ask[adminv1.QueryStatsResponse](t, c, queryStats, req); err != nil || len(got.GetRows()) != 0 {
			t.Errorf("of another connector: %v, %v", got, err)
		}
		req.Filter.Connectors = nil
		got, err = ask[adminv1.QueryStatsResponse](t, c, queryStats, req)
		f.must(err)
		if r := got.GetRows()[0]; r.GetScheduledCount() != 0 || r.GetStartLag() != nil || len(r.GetEndedCounts()) != 2 || r.GetUnknownCount() != 0 {
			t.Errorf("outcomes alone: %v", r)
		}
	})
}

// TestQueryStatsLimits: a query that would cost too much is refused, with the field to change.
func TestQueryStatsLimits(t *testing.T) {
	f := start(t)
	c := overConnect(f)
	now := f.clock.Now()
	many := make([]string, 50)
	for i := range many {
		many[i] = "01980000-0000-7000-8000-0000000000" + string("0123456789abcdef"[i/16]) + string("0123456789abcdef"[i%16])
	}
	minute := adminv1.StatsBucket_STATS_BUCKET_MINUTE
	for name, tt := range map[string]struct {
		req   *adminv1.QueryStatsRequest
		field string
	}{
		"1,500 buckets": {&adminv1.QueryStatsRequest{Bucket: minute, StartTime: timestamppb.New(store.Minute.Start(now).Add(-1499 * time.Minute))}, ""},
		"1,501 buckets": {&adminv1.QueryStatsRequest{Bucket: minute, StartTime: timestamppb.New(store.Minute.Start(now).Add(-1500 * time.Minute))}, "start_time"},
		"buckets times connections": {&adminv1.QueryStatsRequest{
			Bucket: minute, StartTime: timestamppb.New(now.Add(-400 * time.Minute)), Filter: &adminv1.StatsFilter{ConnectionIds: many},
		}, "filter.connection_ids"},
		"an end before the start": {&adminv1.QueryStatsRequest{
			Bucket: minute, StartTime: timestamppb.New(now), EndTime: timestamppb.New(now.Add(-time.Second)),
		}, "end_time"},
		"no bucket": {&adminv1.QueryStatsRequest{StartTime: timestamppb.New(now)}, "bucket"},
		"each connection of all": {&adminv1.QueryStatsRequest{
			Bucket: minute, StartTime: timestamppb.New(now),
			Dimensions: []adminv1.StatsDimension{adminv1.StatsDimension_STATS_DIMENSION_CONNECTION},
		}, "STATS_DIMENSION_CONNECTION"},
		"a start ahead": {&adminv1.QueryStatsRequest{Bucket: minute, StartTime: timestamppb.New(now.Add(time.Hour))}, ""},
	} {
		_, err := ask[adminv1.QueryStatsResponse](t, c, queryStats, tt.req)
		if tt.field == "" {
			if err != nil {
				t.Errorf("%s: %v", name, err)
			}
			continue
		}
		if err == nil || !strings.Contains(err.Error(), tt.field) {
			t.Errorf("%s: %v, want a violation of %q", name, err, tt.field)
		}
	}
}

// TestCountJobs counts by state and in groups, over each protocol.
func TestCountJobs(t *testing.T) {
	overEach(t, func(t *testing.T, f *fixture, c client) {
		f.schedule(f.request("failed"))
		f.fail()
		for _, key := range []string{"a", "b"} {
			f.schedule(f.request(key, at(f.clock.Now().Add(time.Hour))))
		}
		got, err := ask[adminv1.CountJobsResponse](t, c, countJobs, &adminv1.CountJobsRequest{
			GroupBy: adminv1.CountDimension_COUNT_DIMENSION_ERROR_KIND,
		})
		f.must(err)
		counts := make(map[fireoncev1.JobState]int64)
		for _, n := range got.GetStateCounts() {
			counts[n.GetState()] = n.GetCount()
		}
		if len(counts) != 11 || counts[fireoncev1.JobState_JOB_STATE_SCHEDULED] != 2 || counts[fireoncev1.JobState_JOB_STATE_FAILED] != 1 ||
			got.GetCount() != 3 || got.GetCapped() || got.GetAsOfTime() == nil {
			t.Errorf("counts %v", got)
		}
		if g := got.GetGroups(); len(g) != 2 || g[0].GetErrorKind() != 0 || g[0].GetCount() != 2 || g[1].GetErrorKind() == 0 || g[1].GetCount() != 1 {
			t.Errorf("groups %v", g)
		}
		got, err = ask[adminv1.CountJobsResponse](t, c, countJobs, &adminv1.CountJobsRequest{
			GroupBy: adminv1.CountDimension_COUNT_DIMENSION_CONNECTION,
			Filter:  &fireoncev1.JobFilter{States: []fireoncev1.JobState{fireoncev1.JobState_JOB_STATE_FAILED}},
		})
		f.must(err)
		if len(got.GetStateCounts()) != 1 || got.GetCount() != 1 || len(got.GetGroups()) != 1 || got.GetGroups()[0].GetConnectionId() != f.conn {
			t.Errorf("failed jobs: %v", got)
		}
	})
}
