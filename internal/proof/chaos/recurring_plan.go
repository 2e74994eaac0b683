package main

import (
	"fmt"
	"math/rand/v2"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/fireonce/fireonce/clients/go/fireoncev1"
	"github.com/fireonce/fireonce/clients/go/schedulesv1"
	"github.com/fireonce/fireonce/internal/job"
)

const (
	// schedules is how many fire beside the jobs of the clients.
	schedules = 36
	// recurringAccounts are feeds of the schedules' own, after those of the clients' jobs.
	recurringAccounts = 2
	// soonestEvery is the shortest interval that schedules may have.
	soonestEvery = 10 * time.Second
	coolDown     = 12 * time.Second
	mostJitter   = 5
	// recurringLabel marks the campaign's schedules.
	recurringLabel = "campaign"
)

// recurrence is what one schedule of a campaign is to be.
type recurrence struct {
	key             string
	job             spec // its subject and path are of each job's own
	every, phase    time.Duration
	cron            bool
	jitter          time.Duration
	overlap         schedulesv1.OverlapPolicy
	unresolved      schedulesv1.OverlapPolicy
	catchUp         schedulesv1.CatchUpPolicy
	coolDown        time.Duration
	queue           bool
	paused, trigger bool // by hand, now and then
}

const (
	allow     = schedulesv1.OverlapPolicy_OVERLAP_POLICY_ALLOW
	skip      = schedulesv1.OverlapPolicy_OVERLAP_POLICY_SKIP
	bufferOne = schedulesv1.OverlapPolicy_OVERLAP_POLICY_BUFFER_ONE
)

// recurrenceOf returns the i-th schedule of a seed. What matters most comes around by number, so
// that each campaign has all of it: the effect class with every policy, overlap, pauses,
// triggers, queues.
func recurrenceOf(seed uint64, i int) recurrence {
	random := rand.New(rand.NewPCG(seed, 0x7265637572<<16|uint64(i))) //nolint:gosec // repeatable is what it must be
	r := recurrence{
		key: fmt.Sprintf("sched-%d", i), job: spec{policy: job.OnceOrAsk, window: startWindow}, every: soonestEvery,
		overlap: []schedulesv1.OverlapPolicy{allow, skip, bufferOne}[i%3], unresolved: allow,
		catchUp: schedulesv1.CatchUpPolicy(1 + random.IntN(3)), paused: i%4 == 1, trigger: i%2 == 0, queue: i%9 == 5,
	}
	if r.overlap == allow {
		r.catchUp = schedulesv1.CatchUpPolicy_CATCH_UP_POLICY_ALL
	}
	switch i % 7 {
	case 0, 1:
		r.job.face, r.job.class = keyedHook, job.Keyed
	case 2:
		r.job.face, r.job.class = keyedHTTP, job.Keyed
	case 3, 4:
		r.job.face, r.job.class, r.job.account, r.job.window = feedPosts, job.Observable, i%recurringAccounts, postWindow
	case 5:
		r.job.face, r.job.class = opaqueHook, job.Opaque
	default:
		r.job.face, r.job.class = opaqueHook, job.Opaque
		r.job.policy = []job.Delivery{job.AtMostOnce, job.AtLeastOnce}[i/7%2]
	}
	if r.job.class == job.Observable {
		r.unresolved = r.overlap // the platform can be asked, so that no doubt is forever
	}
	if i%6 == 4 {
		r.cron, r.every = true, time.Minute
	} else {
		r.every += time.Duration(random.IntN(6)) * time.Second
		r.phase = time.Duration(random.Int64N(int64(r.every/time.Second))) * time.Second
	}
	if i%5 == 3 {
		r.jitter = time.Duration(1+random.IntN(mostJitter)) * time.Second
	}
	if i%8 == 2 {
		// Where jobs could queue up behind it, the campaign would wait for them in the end.
		// Hardly slower than its cool-down, it would not catch up before the end with what waited
		// while its server was away.
		r.coolDown, r.trigger, r.every = coolDown, false, max(r.every, 2*coolDown)
		if r.overlap == allow {
			r.overlap = bufferOne
		}
	}
	return r
}

// prefix begins the subjects of the schedule's jobs.
func (r recurrence) prefix() string { return r.key + "/" }

// content is the job of a subject.
func (r recurrence) content(to targets, subject string) *fireoncev1.ScheduleJobRequest {
	s := r.job
	s.subject, s.path = r.prefix()+subject, r.key
	return s.request(to, time.Time{})
}

// request is the call that makes the schedule.
func (r recurrence) request(to targets) *schedulesv1.CreateScheduleRequest {
	one := r.content(to, "{{nominal_name}}")
	template := &schedulesv1.JobTemplate{
		Connection: &schedulesv1.JobTemplate_ConnectionId{ConnectionId: one.GetConnectionId()}, Content: &schedulesv1.JobTemplate_Payload{Payload: one.GetPayload()},
		StartWindow: one.GetStartWindow(), RetryPolicy: one.GetRetryPolicy(), Delivery: one.GetDelivery(), AttemptTimeout: one.GetAttemptTimeout(),
	}
	if r.queue {
		template.Content = &schedulesv1.JobTemplate_Queue{Queue: &schedulesv1.QueueContent{}}
	}
	times := &schedulesv1.ScheduleSpec{TimeZone: "UTC", Jitter: durationpb.New(r.jitter)}
	if r.cron {
		times.CronExpressions = []string{"* * * * *"}
	} else {
		times.Intervals = []*schedulesv1.ScheduleInterval{{Every: durationpb.New(r.every), Phase: durationpb.New(r.phase)}}
	}
	return &schedulesv1.CreateScheduleRequest{
		IdempotencyKey: r.key, Spec: times, JobTemplate: template, Labels: map[string]string{recurringLabel: "yes"},
		Policies: &schedulesv1.SchedulePolicies{
			Overlap: r.overlap, WhileUnresolved: r.unresolved, CatchUp: r.catchUp, CoolDown: durationpb.New(r.coolDown),
		},
	}
}
