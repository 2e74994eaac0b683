package notice

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/fireonce/fireonce/clients/go/fireoncev1"
	"github.com/fireonce/fireonce/clients/go/subscriptionsv1"
	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/store"
)

var start = time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)

// moment is n seconds after the start.
func moment(n int) time.Time { return start.Add(time.Duration(n) * time.Second) }

// at is an event of a connection at a second, whose position is ten times that.
func at(second int, conn byte, to job.State) job.Event {
	return job.Event{Position: int64(10 * (second + 1)), At: moment(second), Connection: job.ID{conn}, Job: job.ID{15: byte(second)}, From: job.Sending, To: to}
}

// specOf makes a spec of a filter and rules.
func specOf(t *testing.T, f *subscriptionsv1.NoticeFilter, r *subscriptionsv1.NoticeRules) *Spec {
	t.Helper()
	encoded, err := EncodeSpec(&subscriptionsv1.Subscription{Filter: f, Rules: r})
	if err != nil {
		t.Fatal(err)
	}
	s, err := SpecOf(store.Subscription{Spec: encoded})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func read(events ...job.Event) reading {
	r := reading{events: events, next: 1_000_000}
	return r
}

// TestSelects compares what filters select with the table of changes.
func TestSelects(t *testing.T) {
	alarming := at(1, 1, job.Succeeded)
	alarming.From, alarming.Cause = job.Succeeded, job.CauseDuplicateEffect
	again := at(1, 1, job.NeedsResolution)
	again.From = job.Ambiguous
	states := func(all ...fireoncev1.JobState) *subscriptionsv1.NoticeFilter {
		return &subscriptionsv1.NoticeFilter{States: all}
	}
	unknown := &subscriptionsv1.NoticeFilter{Phases: []fireoncev1.Phase{fireoncev1.Phase_PHASE_UNKNOWN}}
	of := &subscriptionsv1.NoticeFilter{ConnectionIds: []string{job.ID{2}.String()}}
	for _, tt := range []struct {
		name   string
		filter *subscriptionsv1.NoticeFilter
		event  job.Event
		want   bool
	}{
		{"what went wrong: FAILED", nil, at(1, 1, job.Failed), true},
		{"what went wrong: EXPIRED", nil, at(1, 1, job.Expired), true},
		{"what went wrong: NEEDS_RESOLUTION", nil, at(1, 1, job.NeedsResolution), true},
		{"what went wrong: an alarm", nil, alarming, true},
		{"what went wrong: SUCCEEDED", nil, at(1, 1, job.Succeeded), false},
		{"what went wrong: AMBIGUOUS", nil, at(1, 1, job.Ambiguous), false},
		{"a state", states(fireoncev1.JobState_JOB_STATE_SUCCEEDED), at(1, 1, job.Succeeded), true},
		{"another state", states(fireoncev1.JobState_JOB_STATE_SUCCEEDED), at(1, 1, job.Failed), false},
		{"a state without a change", states(fireoncev1.JobState_JOB_STATE_SUCCEEDED), alarming, false},
		{"a phase", unknown, at(1, 1, job.Ambiguous), true},
		{"within a phase", unknown, again, false},
		{"a connection", of, at(1, 2, job.Failed), true},
		{"another connection", of, at(1, 1, job.Failed), false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := specOf(t, tt.filter, nil).selects(tt.event); got != tt.want {
				t.Errorf("selected: %t", got)
			}
		})
	}
	callback := &Spec{Stated: &subscriptionsv1.Subscription{}, Callback: job.ID{9}}
	for _, state := range job.States {
		want := state.Terminal() || state == job.NeedsResolution
		if got := callback.selects(at(1, 1, state)) && state != job.Sending; got != want {
			t.Errorf("a callback of %s: %t", state, got)
		}
	}
	if callback.named(store.JobName{Callback: job.ID{8}}) || !callback.named(store.JobName{Callback: job.ID{9}}) {
		t.Error("a callback goes by the job's own connection")
	}
}

// TestJudge compares decisions with what they should be: what is reported, up to where, and when the next
// look is.
func TestJudge(t *testing.T) {
	seconds := func(n int) *durationpb.Duration { return durationpb.New(time.Duration(n) * time.Second) }
	failed := func(n ...int) (out []job.Event) {
		for _, second := range n {
			out = append(out, at(second, 1, job.Failed))
		}
		return out
	}
	const end = 1_000_000
	for _, tt := range []struct {
		name   string
		rules  *subscriptionsv1.NoticeRules
		events []job.Event
		now    int
		kind   store.NoticeKind
		told   int
		to     int64
		next   int // seconds; 0: none
		only   bool
	}{
		{name: "nothing", to: end},
		{name: "immediately", events: failed(1, 2), now: 2, kind: store.NoticeEvents, told: 2, to: end},
		{name: "a digest", rules: &subscriptionsv1.NoticeRules{Digest: true}, events: failed(1, 2), now: 2, kind: store.NoticeDigest, told: 2, to: end},
		{name: "collected", rules: &subscriptionsv1.NoticeRules{Collect: seconds(60)}, events: failed(1, 2), now: 5, to: 19, next: 61, only: true},
		{name: "collected enough", rules: &subscriptionsv1.NoticeRules{Collect: seconds(60)}, events: failed(1, 2, 50), now: 61, kind: store.NoticeEvents, told: 3, to: end},
		{name: "not quiet", rules: &subscriptionsv1.NoticeRules{Quiet: seconds(10)}, events: failed(1, 2), now: 5, to: 19, next: 12, only: true},
		{name: "quiet", rules: &subscriptionsv1.NoticeRules{Quiet: seconds(10)}, events: failed(1, 2), now: 12, kind: store.NoticeEvents, told: 2, to: end},
		{name: "never quiet, but collected", rules: &subscriptionsv1.NoticeRules{Quiet: seconds(10), Collect: seconds(20)}, events: failed(1, 9, 18), now: 21, kind: store.NoticeEvents, told: 3, to: end},
		{
			name: "below a threshold", rules: &subscriptionsv1.NoticeRules{Threshold: 3, ThresholdWindow: seconds(100)}, events: failed(1, 2), now: 5,
			to: 19, next: 10, only: true,
		},
		{
			name: "a threshold that is over", rules: &subscriptionsv1.NoticeRules{Threshold: 3, ThresholdWindow: seconds(10)}, events: failed(1, 2, 30), now: 35,
			to: 309, next: 36, only: true,
		},
		{name: "a threshold", rules: &subscriptionsv1.NoticeRules{Threshold: 3, ThresholdWindow: seconds(10)}, events: failed(1, 20, 25, 30), now: 30, kind: store.NoticeEvents, told: 4, to: end},
		{name: "all below a threshold are old", rules: &subscriptionsv1.NoticeRules{Threshold: 3, ThresholdWindow: seconds(10)}, events: failed(1), now: 30, to: end},
	} {
		t.Run(tt.name, func(t *testing.T) {
			v := specOf(t, nil, tt.rules).judge(read(tt.events...), memory{}, moment(tt.now))
			next := 0
			if !v.next.IsZero() {
				next = int(v.next.Sub(start).Seconds())
			}
			got := fmt.Sprint(v.kind, len(v.events), v.position, next, v.onlyThen)
			told := tt.told
			if want := fmt.Sprint(tt.kind, told, tt.to, tt.next, tt.only); got != want {
				t.Errorf("kind, events, position, next, only then: %s, want %s", got, want)
			}
		})
	}
}

// TestStorm: more events than a notice has are reported in the next ones, and more than a storm has
// are counted. None is reported twice, and none is lost.
func TestStorm(t *testing.T) {
	s := specOf(t, nil, nil)
	var events []job.Event
	for i := range storm {
		events = append(events, at(i, byte(i%3), job.Failed))
	}
	var told []int64
	for notices := 0; len(told) < len(events); notices++ {
		if notices > storm/MaxEvents {
			t.Fatal("too many notices")
		}
		v := s.judge(read(events[len(told):]...), memory{}, moment(storm))
		if v.kind != store.NoticeEvents || len(v.events) > MaxEvents {
			t.Fatalf("kind %d with %d events", v.kind, len(v.events))
		}
		for _, e := range v.events {
			told = append(told, e.Position)
		}
		if last := told[len(told)-1]; v.position < last || len(told) < len(events) && v.position != last {
			t.Fatalf("the position is %d after event %d", v.position, last)
		}
	}
	if !slices.IsSorted(told) {
		t.Error("events are reported out of order")
	}
	events = append(events, at(storm, 0, job.Expired))
	v := s.judge(read(events...), memory{}, moment(storm))
	if v.kind != store.NoticeDigest || len(v.events) != storm+1 {
		t.Fatalf("kind %d with %d events", v.kind, len(v.events))
	}
	all := groups(v.events)
	var sum int64
	for _, g := range all {
		sum += g.count
	}
	if len(all) != 4 || sum != storm+1 || all[0].count < all[3].count {
		t.Errorf("groups %+v", all)
	}
	if shown := examples(v.events); len(shown) != 3*groupExamples+1 {
		t.Errorf("%d examples", len(shown))
	}
}

// TestRecovered: the first success of a connection of which something bad was reported is reported, once,
// also if the two are in different notices.
func TestRecovered(t *testing.T) {
	s := specOf(t, nil, &subscriptionsv1.NoticeRules{Recovered: true})
	v := s.judge(read(at(1, 1, job.Succeeded), at(2, 1, job.Failed), at(3, 2, job.Succeeded)), memory{}, moment(5))
	if v.kind != store.NoticeEvents || len(v.events) != 1 {
		t.Fatalf("kind %d with %d events", v.kind, len(v.events))
	}
	m, err := readMemory(store.Subscription{Memory: v.memory.encode()})
	if err != nil {
		t.Fatal(err)
	}
	v = s.judge(read(at(6, 2, job.Succeeded), at(7, 1, job.Succeeded), at(8, 1, job.Succeeded)), m, moment(9))
	if v.kind != store.NoticeRecovered || len(v.events) != 1 || v.events[0].At != moment(7) {
		t.Errorf("kind %d: %+v", v.kind, v.events)
	}
	if len(v.memory.Failing) != 0 {
		t.Errorf("the memory is %+v", v.memory)
	}
}

// TestRuledIsNoSuccess: a person, or the delivery, that calls an unknown job sent ends neither a
// failure nor a silence.
func TestRuledIsNoSuccess(t *testing.T) {
	s := specOf(t, nil, &subscriptionsv1.NoticeRules{Recovered: true, Silence: durationpb.New(100 * time.Second)})
	ruled, assumed := at(2, 1, job.Succeeded), at(3, 1, job.Succeeded)
	ruled.Cause, assumed.Cause = job.CauseResolved, job.CausePolicy
	v := s.judge(read(at(1, 1, job.NeedsResolution), ruled, assumed), memory{Success: moment(0)}, moment(5))
	if v.kind != store.NoticeEvents || len(v.events) != 1 || len(v.memory.Failing) != 1 || v.memory.Success != moment(0) {
		t.Fatalf("kind %d, %d events, memory %+v", v.kind, len(v.events), v.memory)
	}
	v = s.judge(read(at(6, 1, job.Succeeded)), v.memory, moment(7))
	if v.kind != store.NoticeRecovered || v.memory.Success != moment(6) {
		t.Errorf("kind %d, memory %+v", v.kind, v.memory)
	}
}

// TestSilence: that nothing succeeded is reported once, after its time, and again after a success.
func TestSilence(t *testing.T) {
	s := specOf(t, nil, &subscriptionsv1.NoticeRules{Silence: durationpb.New(100 * time.Second), Recovered: true})
	v := s.judge(read(), memory{}, moment(0))
	if v.kind != 0 || !v.next.Equal(moment(100)) {
		t.Fatalf("at the beginning: kind %d, next %s", v.kind, v.next)
	}
	v = s.judge(read(at(50, 1, job.Succeeded)), v.memory, moment(60))
	if v.kind != 0 || !v.next.Equal(moment(150)) {
		t.Fatalf("after a success: kind %d, next %s", v.kind, v.next)
	}
	v = s.judge(read(), v.memory, moment(150))
	if v.kind != store.NoticeSilence || !v.silentSince.Equal(moment(50)) {
		t.Fatalf("after a silence: kind %d, since %s", v.kind, v.silentSince)
	}
	if v = s.judge(read(), v.memory, moment(400)); v.kind != 0 {
		t.Fatalf("told twice: kind %d", v.kind)
	}
	v = s.judge(read(at(410, 1, job.Succeeded)), v.memory, moment(411))
	if v.kind != store.NoticeRecovered || len(v.events) != 1 {
		t.Fatalf("after it: kind %d with %d events", v.kind, len(v.events))
	}
	if v = s.judge(read(), v.memory, moment(412)); !v.next.Equal(moment(510)) {
		t.Errorf("the next silence is due %s", v.next)
	}
}

// TestLost: a notice says that events were removed before they were read, also if it comes later.
func TestLost(t *testing.T) {
	s := specOf(t, nil, nil)
	r := read()
	r.lost = true
	v := s.judge(r, memory{}, moment(1))
	if v.kind != 0 || !v.memory.Lost {
		t.Fatalf("kind %d, memory %+v", v.kind, v.memory)
	}
	m, err := readMemory(store.Subscription{Memory: v.memory.encode()})
	if err != nil {
		t.Fatal(err)
	}
	if v = s.judge(read(at(2, 1, job.Failed)), m, moment(3)); v.kind != store.NoticeEvents || !v.memory.Lost {
		t.Errorf("kind %d, memory %+v", v.kind, v.memory)
	}
}
