package server_test

import (
	"fmt"
	"regexp"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/prototext"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/fireonce/fireonce/clients/go/fireoncev1"
	"github.com/fireonce/fireonce/clients/go/schedulesv1"
	"github.com/fireonce/fireonce/internal/schedule"
	"github.com/fireonce/fireonce/server"
)

// skewed sets a server's own clock apart from its store's.
func skewed(by time.Duration) func(*server.Config) {
	return func(c *server.Config) {
		now := c.Now
		c.Now = func() time.Time { return now().Add(by) }
	}
}

// TestSkipsOutliveAResumeByAnyClock: a firing that was called off makes no job, however far the clock of
// the server that resumes its schedule is from the store's.
func TestSkipsOutliveAResumeByAnyClock(t *testing.T) {
	t.Parallel()
	for _, by := range []time.Duration{0, 2 * time.Hour, -2 * time.Hour} {
		t.Run(by.String(), func(t *testing.T) {
			t.Parallel()
			var clockwork *schedule.Scheduler
			f := start(t, firing(&clockwork), skewed(by))
			c := overConnect(f)
			id := f.recurring(t.Context(), c, f.newSchedule("s")).GetScheduleId()
			const name = "2026-07-01T15:00:00/1" // in an hour
			_, err := f.skipFiring(c, id, name, false)
			f.must(err)
			_, err = f.pauseSchedule(c, id, "", "")
			f.must(err)
			_, err = f.resumeSchedule(c, id, "", "")
			f.must(err)
			f.firesAfter(clockwork, time.Hour)
			for _, made := range f.listFirings(c, id) {
				if made.GetName() == name && made.GetOutcome() == fireoncev1.FiringOutcome_FIRING_OUTCOME_SKIPPED_BY_REQUEST {
					return
				}
			}
			t.Errorf("firing %s was called off: %v", name, f.listFirings(c, id))
		})
	}
}

// TestSchedulesFollowTheStoresClock: all calls about schedules have the same answers from servers whose
// clocks are ahead of the store's, or behind it.
func TestSchedulesFollowTheStoresClock(t *testing.T) {
	t.Parallel()
	want := answersBy(t, 0)
	for _, by := range []time.Duration{5 * time.Second, 2 * time.Hour, -5 * time.Second, -2 * time.Hour} {
		t.Run(by.String(), func(t *testing.T) {
			t.Parallel()
			got := answersBy(t, by)
			for i := range want {
				if got[i] != want[i] {
					t.Errorf("got\n%s\nwant\n%s", got[i], want[i])
				}
			}
		})
	}
}

// answersBy returns the answers of a server whose clock is apart from its store's.
func answersBy(t *testing.T, by time.Duration) []string {
	var clockwork *schedule.Scheduler
	f := start(t, firing(&clockwork), skewed(by))
	s := &skewStory{f: f, c: overConnect(f)}
	s.create("dry", func(r *createScheduleRequest) { r.ValidateOnly = true })
	s.create("queue", fromQueue)
	f.addItem(s.c, s.id, "one", custom("good/v1", "one"))
	s.preview(f.clock.Now().Add(90 * time.Minute))
	s.pause()
	s.preview(f.clock.Now().Add(90 * time.Minute))
	s.preview(time.Time{})

	s.create("s")
	s.look()
	for _, name := range []string{"2026-07-01T15:00:00/1", "2026-07-01T16:00:00/1", "2026-07-01T14:00:00/1", "2026-07-01T13:30:00/1"} {
		s.skip(name)
	}
	s.pause()
	s.look()
	f.clock.advance(time.Hour)
	for _, name := range []string{"2026-07-01T15:00:00/1", "2026-07-01T17:00:00/1"} {
		s.skip(name)
	}
	note(s, "resume", func() (*schedulesv1.Schedule, error) { return f.resumeSchedule(s.c, s.id, "", "") })
	s.look()
	f.firesAfter(clockwork, 2*time.Hour)
	s.look()
	f.clock.advance(time.Hour + time.Minute) // without a decision
	s.look()
	for _, end := range []time.Duration{-time.Minute, time.Second} {
		note(s, "backfill", func() (*schedulesv1.BackfillScheduleResponse, error) {
			return f.backfill(s.c, s.id, f.clock.Now().Add(-10*time.Hour), f.clock.Now().Add(end))
		})
	}
	note(s, "backfill too early", func() (*schedulesv1.BackfillScheduleResponse, error) {
		return f.backfill(s.c, s.id, f.clock.Now().Add(-schedule.BackfillKept+time.Second), f.clock.Now())
	})
	s.bulk()
	note(s, "update", func() (*schedulesv1.UpdateScheduleResponse, error) {
		got := f.getSchedule(s.c, s.id).GetSchedule()
		return f.updateSchedule(s.c, got, func(r *updateScheduleRequest) {
			r.Spec, r.JobTemplate = daily(), templateOn(f.conn)
			r.JobTemplate.Content = contentOf(custom("good/v1", "{{nominal_time}}"))
		}, "spec", "job_template")
	})
	s.look()
	note(s, "trigger", func() (*schedulesv1.TriggerScheduleResponse, error) { return f.trigger(s.c, s.id, "now", true) })
	note(s, "delete", func() (*schedulesv1.Schedule, error) { return f.deleteSchedule(s.c, s.id, "") })
	s.look()
	return s.answers
}

// skewStory collects the answers of one server about its schedules.
type skewStory struct {
	f       *fixture
	c       client
	id      string
	answers []string
}

// random matches ids and etags, which differ between two servers.
var random = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f-]{27}|etag: *"[^"]*"|etag is now [^ ,]+|page_token: *"[^"]*"`)

func note[M proto.Message](s *skewStory, what string, call func() (M, error)) {
	answer, err := call()
	text := fmt.Sprintf("%s at %s: %v\n%s", what, s.f.clock.Now(), err, prototext.Format(answer))
	s.answers = append(s.answers, random.ReplaceAllString(text, "ID"))
}

func (s *skewStory) create(key string, edit ...func(*createScheduleRequest)) {
	note(s, "create", func() (*schedulesv1.CreateScheduleResponse, error) {
		res, err := ask[schedulesv1.CreateScheduleResponse](s.f.tb, s.c, schedsPath+"CreateSchedule", s.f.newSchedule(key, edit...))
		s.id = res.GetSchedule().GetScheduleId()
		return res, err
	})
}

func (s *skewStory) pause() {
	note(s, "pause", func() (*schedulesv1.Schedule, error) { return s.f.pauseSchedule(s.c, s.id, "", "") })
}

func (s *skewStory) skip(name string) {
	note(s, "skip "+name, func() (*schedulesv1.SkipFiringResponse, error) { return s.f.skipFiring(s.c, s.id, name, false) })
}

// look reads the schedule and its times in each way.
func (s *skewStory) look() {
	note(s, "get", func() (*schedulesv1.GetScheduleResponse, error) { return s.f.getSchedule(s.c, s.id), nil })
	note(s, "list", func() (*schedulesv1.ListSchedulesResponse, error) {
		return ask[schedulesv1.ListSchedulesResponse](s.f.tb, s.c, schedsPath+"ListSchedules", &schedulesv1.ListSchedulesRequest{})
	})
	note(s, "firings", func() (*schedulesv1.ListFiringsResponse, error) {
		return &schedulesv1.ListFiringsResponse{Firings: s.f.listFirings(s.c, s.id)}, nil
	})
	s.preview(time.Time{})
	s.preview(s.f.clock.Now().Add(-time.Hour))
	note(s, "preview a spec", func() (*schedulesv1.PreviewScheduleResponse, error) {
		return ask[schedulesv1.PreviewScheduleResponse](s.f.tb, s.c, schedsPath+"PreviewSchedule", &schedulesv1.PreviewScheduleRequest{
			Subject: &schedulesv1.PreviewScheduleRequest_Spec{Spec: everyHour()},
		})
	})
}

func (s *skewStory) preview(from time.Time) {
	r := &schedulesv1.PreviewScheduleRequest{Subject: &schedulesv1.PreviewScheduleRequest_ScheduleId{ScheduleId: s.id}, Count: 4}
	if !from.IsZero() {
		r.StartTime = timestamppb.New(from)
	}
	note(s, "preview", func() (*schedulesv1.PreviewScheduleResponse, error) {
		return ask[schedulesv1.PreviewScheduleResponse](s.f.tb, s.c, schedsPath+"PreviewSchedule", r)
	})
}

// bulk pauses and resumes all schedules, each dry and then truly.
func (s *skewStory) bulk() {
	for _, dry := range []bool{true, false} {
		note(s, "bulk pause", func() (*schedulesv1.BulkPauseSchedulesResponse, error) {
			return ask[schedulesv1.BulkPauseSchedulesResponse](s.f.tb, s.c, schedsPath+"BulkPauseSchedules", &schedulesv1.BulkPauseSchedulesRequest{Filter: anySchedule(), DryRun: dry})
		})
	}
	for _, dry := range []bool{true, false} {
		note(s, "bulk resume", func() (*schedulesv1.BulkResumeSchedulesResponse, error) {
			return ask[schedulesv1.BulkResumeSchedulesResponse](s.f.tb, s.c, schedsPath+"BulkResumeSchedules", &schedulesv1.BulkResumeSchedulesRequest{Filter: anySchedule(), DryRun: dry})
		})
	}
}
