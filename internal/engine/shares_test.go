package engine_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/fireonce/fireonce/internal/connector"
	"github.com/fireonce/fireonce/internal/engine"
	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/store"
)

// silentBut makes the target silent until over, but for the job with one effect key.
func (w *world) silentBut(over <-chan struct{}, mine func() string) {
	w.platform.publish = func(_ int, c connector.Commit) job.Outcome {
		if c.EffectKey != mine() {
			<-over
			return unknown("no answer")
		}
		return w.platform.confirm(c)
	}
}

// silence submits jobs for silent targets, of so many connections of one project, each with as
// many hold keys as jobs.
func (w *world) silence(project string, conns, each int) {
	w.t.Helper()
	for c := range conns {
		w.room = 1000
		w.connectIn(project, fmt.Sprint("silent ", project, c))
		for i := range each {
			w.submit(fmt.Sprint("silent ", c, " ", i), func(n *store.NewJob) { n.Spec.HoldKey = fmt.Sprint("host ", i) })
		}
	}
}

// TestSilentTargetsStopNobodyElse: as many jobs as there are senders, and many more, wait for
// answers. A bystander's job is sent within seconds.
func TestSilentTargetsStopNobodyElse(t *testing.T) {
	for _, tt := range []struct {
		name        string
		conns, each int
		project     string // the bystander's
	}{
		{"of one connection", 1, 64, "default"},
		{"of one connection with many hosts", 1, 700, "default"},
		{"of one project", 8, 64, "bystanders"},
		{"of one project with many connections", 200, 4, "bystanders"},
	} {
		for _, class := range []job.Class{job.Keyed, job.Opaque} {
			t.Run(tt.name+", "+class.String(), func(t *testing.T) {
				in(t, func(t *testing.T, w *world) {
					var mine string
					w.platform.class = class
					over := make(chan struct{})
					defer close(over)
					w.silentBut(over, func() string { return mine })
					w.silence("default", tt.conns, tt.each)
					w.start()
					w.pass(10 * time.Second)
					if n := w.platform.sent(); n > 48 || n < 32 {
						t.Errorf("%d requests wait", n)
					}
					w.connectIn(tt.project, "bystander")
					mine = job.EffectKey("", tt.project, "bystander's", 1)
					id := w.submit("bystander's", window(5*time.Second))
					w.pass(5 * time.Second)
					s, err := w.store.Job(t.Context(), store.Ref{Project: tt.project, ID: id})
					if err != nil || s.State != job.Succeeded {
						t.Errorf("%v, %v", s.State, err)
					}
				})
			})
		}
	}
}

// deaf is a store that sends no hints: what nothing else wakes waits for a poll.
type deaf struct{ engine.Store }

func (deaf) Watch(store.WatchKind) (<-chan struct{}, func()) { return nil, func() {} }

// TestAConnectionAloneUsesItsShareAgain: more jobs than one connection may have senders are all
// sent, as fast as its share allows, without a hint of the store.
func TestAConnectionAloneUsesItsShareAgain(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		w.room = 1000
		w.connect("wide")
		w.platform.publish = func(_ int, c connector.Commit) job.Outcome {
			time.Sleep(1500 * time.Millisecond) // the bubble's time
			return w.platform.confirm(c)
		}
		for i := range 320 {
			w.submit(fmt.Sprint("job ", i))
		}
		w.start()
		w.pass(15500 * time.Millisecond) // ten rounds of 32
		if n := w.platform.total(); n != 320 {
			t.Errorf("%d of 320 were sent", n)
		}
	}, through(func(s engine.Store) engine.Store { return deaf{s} }))
}
