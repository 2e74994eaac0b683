package server_test

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/fireonce/fireonce/clients/go/adminv1"
	"github.com/fireonce/fireonce/clients/go/fireoncev1"
	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/server"
	"github.com/fireonce/fireonce/store"
)

const getStats = statsPath + "GetStats"

// measuring is a store with known numbers, which counts how often it is asked.
type measuring struct {
	server.Store
	now   func() time.Time
	mu    *sync.Mutex
	asked map[store.StatsQuery]int
	fail  *error
	begun chan struct{} // when set, gets a token when a measurement begins,
	gate  chan struct{} // which then waits for this
}

func (m measuring) Stats(_ context.Context, q store.StatsQuery) (store.Stats, error) {
	m.mu.Lock()
	m.asked[q]++
	err := *m.fail
	m.mu.Unlock()
	if m.gate != nil {
		m.begun <- struct{}{}
		<-m.gate
	}
	return store.Stats{
		Now: m.now(), Counts: map[job.State]int64{job.Scheduled: 3, job.NeedsResolution: 2},
		OldestDue: time.Second, OldestUnresolved: time.Minute, Started: 7,
		StartLagP50: time.Millisecond, StartLagP99: 2 * time.Second, Recovered: 1,
	}, err
}

func (m measuring) Meta(ctx context.Context) (store.Meta, error) {
	meta, err := m.Store.Meta(ctx)
	meta.EventLag = 3 * time.Second
	return meta, err
}

func (m measuring) total() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	n := 0
	for _, asked := range m.asked {
		n += asked
	}
	return n
}

// measured makes a fixture whose store measures.
func measured(t *testing.T, gate chan struct{}) (*fixture, measuring) {
	m := measuring{mu: &sync.Mutex{}, asked: map[store.StatsQuery]int{}, fail: new(error), begun: make(chan struct{}, 100), gate: gate}
	f := start(t, func(c *server.Config) {
		m.Store, m.now = c.Store, c.Now
		c.Store = m
	})
	return f, m
}

func TestStatsOnTheWire(t *testing.T) {
	for name, dial := range protocols {
		t.Run(name, func(t *testing.T) {
			f, m := measured(t, nil)
			c := dial(f)
			f.must(f.store.Quarantine(t.Context(), "a drill"))
			got, err := ask[adminv1.GetStatsResponse](t, c, getStats, &adminv1.GetStatsRequest{})
			f.must(err)
			if len(got.GetStateCounts()) != len(job.States) || got.GetStateCounts()[0].GetCount() != 3 ||
				got.GetStateCounts()[6].GetState() != fireoncev1.JobState_JOB_STATE_NEEDS_RESOLUTION || got.GetStateCounts()[6].GetCount() != 2 {
				t.Errorf("counts %v", got.GetStateCounts())
			}
			if got.GetOldestDueAge().AsDuration() != time.Second || got.GetOldestUnresolvedAge().AsDuration() != time.Minute ||
				got.GetStartedCount() != 7 || got.GetStartLagP50().AsDuration() != time.Millisecond ||
				got.GetStartLagP99().AsDuration() != 2*time.Second || got.GetRecoveredCount() != 1 ||
				got.GetEventLag().AsDuration() != 3*time.Second || got.GetQuarantineReason() != "a drill" ||
				!got.GetAsOfTime().AsTime().Equal(f.clock.Now()) {
				t.Errorf("stats %v", got)
			}
			_, err = ask[adminv1.GetStatsResponse](t, c, getStats, &adminv1.GetStatsRequest{Connection: &adminv1.GetStatsRequest_ConnectionId{ConnectionId: absent}})
			wantReason(t, err, fireoncev1.ErrorReason_ERROR_REASON_CONNECTION_NOT_FOUND)
			for _, bad := range []*adminv1.GetStatsRequest{
				{Connection: &adminv1.GetStatsRequest_ConnectionId{ConnectionId: "x"}}, {Window: durationpb.New(0)}, {Window: durationpb.New(32 * 24 * time.Hour)},
			} {
				_, err := ask[adminv1.GetStatsResponse](t, c, getStats, bad)
				if e := new(wireError); !asWire(err, &e) || e.code != connect.CodeInvalidArgument {
					t.Errorf("%v: %v", bad, err)
				}
			}
			if _, asked := m.asked[store.StatsQuery{Project: "default", Window: 24 * time.Hour}]; !asked || m.total() != 1 {
				t.Errorf("the store was asked %v", m.asked)
			}
		})
	}
}

// TestStatsAreKept for 5 s, each question's own; a failure is not kept.
func TestStatsAreKept(t *testing.T) {
	f, m := measured(t, nil)
	c := overConnect(f)
	look := func(req *adminv1.GetStatsRequest) error {
		_, err := ask[adminv1.GetStatsResponse](t, c, getStats, req)
		return err
	}
	for range 5 {
		f.must(look(&adminv1.GetStatsRequest{}))
		f.must(look(&adminv1.GetStatsRequest{Window: durationpb.New(time.Hour)}))
		f.must(look(&adminv1.GetStatsRequest{Connection: &adminv1.GetStatsRequest_ConnectionId{ConnectionId: strings.ToUpper(f.conn)}}))
	}
	if m.total() != 3 {
		t.Errorf("%d measurements for 3 questions", m.total())
	}
	f.clock.advance(5*time.Second - time.Microsecond)
	f.must(look(&adminv1.GetStatsRequest{}))
	if m.total() != 3 {
		t.Errorf("measured again within 5 s")
	}
	f.clock.advance(time.Microsecond)
	f.must(look(&adminv1.GetStatsRequest{}))
	if m.total() != 4 {
		t.Errorf("%d measurements after 5 s, want 4", m.total())
	}
	f.clock.advance(time.Minute)
	*m.fail = store.ErrUnavailable
	wantReason(t, look(&adminv1.GetStatsRequest{}), fireoncev1.ErrorReason_ERROR_REASON_STORE_UNAVAILABLE)
	*m.fail = nil
	f.must(look(&adminv1.GetStatsRequest{}))
}

// TestStatsSingleFlight: concurrent callers cause one measurement, and a caller that leaves fails
// no other.
func TestStatsSingleFlight(t *testing.T) {
	gate := make(chan struct{})
	f, m := measured(t, gate)
	leaving, leave := context.WithCancel(t.Context())
	gone := make(chan error, 1)
	go func() {
		gone <- overGRPC(f).call(leaving, getStats, &adminv1.GetStatsRequest{}, &adminv1.GetStatsResponse{})
	}()
	<-m.begun
	var wg sync.WaitGroup
	for range 50 {
		wg.Go(func() {
			if _, err := ask[adminv1.GetStatsResponse](t, overConnect(f), getStats, &adminv1.GetStatsRequest{}); err != nil {
				t.Errorf("stats: %v", err)
			}
		})
	}
	leave()
	if err := <-gone; err == nil {
		t.Error("the call that was given up succeeded")
	}
	close(gate)
	wg.Wait()
	if m.total() != 1 {
		t.Errorf("%d measurements, want 1", m.total())
	}
}
