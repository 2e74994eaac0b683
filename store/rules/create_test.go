package rules_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/store"
	"github.com/fireonce/fireonce/store/rules"
)

func request() *store.NewJob {
	n := &store.NewJob{ScheduleTime: now.Add(time.Hour + 1)}
	n.Spec = job.Spec{ID: id, Project: "p", Key: "k", Connection: job.ID{9}, StartWindow: time.Minute + 1, Labels: map[string]string{}, Payload: []byte{}}
	return n
}

func TestNewJob(t *testing.T) {
	j, err := rules.NewJob(request(), job.Opaque, now)
	if err != nil {
		t.Fatal(err)
	}
	due := now.Add(time.Hour)
	want := job.Status{
		State: job.Scheduled, Version: 1, Round: 1, ScheduleTime: due, NextAt: due, StartDeadline: due.Add(time.Minute),
		Class: job.Opaque, Updated: now,
	}
	if j.Status != want {
		t.Errorf("%+v, want %+v", j.Status, want)
	}
	if j.Delivery != job.OnceOrAsk || j.Labels != nil || j.Payload != nil || !j.Created.Equal(now) || j.StartWindow != time.Minute {
		t.Errorf("%+v", j.Spec)
	}

	n := request()
	n.ScheduleTime, n.Class, n.Spec.StartWindow = time.Time{}, job.Keyed, 0
	if j, err = rules.NewJob(n, job.Opaque, now); err != nil || !j.NextAt.Equal(now) || j.Status.Class != job.Keyed ||
		!j.StartDeadline.Equal(now.Add(job.DefaultWindow)) {
		t.Errorf("now: %+v, %v", j.Status, err)
	}
}

func TestMayStore(t *testing.T) {
	for name, spoil := range map[string]func(*store.NewJob){
		"no key":        func(n *store.NewJob) { n.Spec.Key = "" },
		"a window":      func(n *store.NewJob) { n.Spec.StartWindow = -1 },
		"a delivery":    func(n *store.NewJob) { n.Spec.Delivery = job.AtLeastOnce + 1 },
		"a cool-down":   func(n *store.NewJob) { n.Spec.CoolDown = job.MaxCoolDown + time.Second },
		"skips":         func(n *store.NewJob) { n.Spec.SkipIfPresent = -1 },
		"skips for ":    func(n *store.NewJob) { n.Spec.SkipIfPresent = job.MaxPresentAge + time.Second },
		"a trace":       func(n *store.NewJob) { n.Spec.Trace = "00" },
		"a long trace":  func(n *store.NewJob) { n.Spec.Trace = strings.Repeat("0", job.MaxTrace+1) },
		"another class": func(n *store.NewJob) { n.Class = job.Opaque + 1 },
	} {
		n := request()
		spoil(n)
		if _, err := rules.NewJob(n, job.Keyed, now); !errors.Is(err, store.ErrIllegal) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestAwait(t *testing.T) {
	n := request()
	n.Spec.ReplyTo, n.Spec.WaitWindow = other, 5*time.Hour
	j, err := rules.NewJob(n, job.Keyed, now)
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name string
		p    rules.Predecessor
		want error
	}{
		{"none", rules.Predecessor{}, store.ErrReplyTo},
		{"of another project", rules.Predecessor{Project: "q", State: job.Succeeded}, store.ErrReplyTo},
		{"too many wait", rules.Predecessor{Project: "p", State: job.Scheduled, Waiting: store.MaxReplies}, store.ErrManyReplies},
		{"the last that may", rules.Predecessor{Project: "p", State: job.Scheduled, Waiting: store.MaxReplies - 1}, nil},
		{"it has succeeded", rules.Predecessor{Project: "p", State: job.Succeeded, Waiting: store.MaxReplies}, nil},
		{"it has failed", rules.Predecessor{Project: "p", State: job.Failed}, nil},
	} {
		got, err := rules.Await(j, tt.p)
		if !errors.Is(err, tt.want) || tt.want == nil && err != nil {
			t.Errorf("%s: %v, want %v", tt.name, err, tt.want)
		}
		waits := tt.want == nil && tt.p.State != job.Succeeded
		if waits != (got.WaitsFor == other) || waits && (got.PredecessorEnd != tt.p.State.BadEnd() || !got.StartDeadline.Equal(j.NextAt.Add(5*time.Hour))) {
			t.Errorf("%s: %+v", tt.name, got.Status)
		}
	}
}

func TestMayCreate(t *testing.T) {
	s := &request().Spec
	if rules.MayCreate(s, "p", false) != nil || !errors.Is(rules.MayCreate(s, "p", true), store.ErrNotFound) ||
		!errors.Is(rules.MayCreate(s, "q", false), store.ErrNotFound) {
		t.Error("a connection")
	}
}
