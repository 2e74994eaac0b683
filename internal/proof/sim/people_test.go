package sim

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/store"
)

// people lets clients and persons do what they do, and plans their next deed.
func (w *simWorld) people() {
	if !w.plagued.Load() {
		return
	}
	w.director.plan(time.Duration(w.upTo(int(2*w.hurry))), "people", w.people)
	if w.down {
		return
	}
	j := w.jobs[w.upTo(len(w.jobs))]
	for _, asked := range w.jobs {
		if asked.last.State == job.NeedsResolution && w.upTo(3) == 0 {
			j = asked
		}
	}
	if j.last.Version == 0 {
		return
	}
	s, err := w.store.Job(context.Background(), store.Ref{ID: j.id})
	if err != nil {
		w.t.Error(err)
		return
	}
	f, ev, content := w.deed(j, s)
	if ev == nil {
		return
	}
	d, err := job.Decide(s.View(job.Traits{Class: s.Class}, 0), ev)
	if f == faultUpdate && content.Payload != nil && s.State != job.Scheduled && err == nil {
		w.broke("CONTENT", j, "may be changed while it is %s", s.State)
	}
	if err != nil || d.Action != job.ActWrite {
		return
	}
	w.stats.faults[f]++
	w.note("client", faultNames[f], j.id, 0, "")
	applied, err := w.store.Apply(context.Background(), []store.Change{{Job: j.id, Version: s.Version, Decision: d, Content: content, Actor: "client"}})
	switch {
	case err != nil:
		w.t.Error(err)
		return
	case applied[0].Err != nil:
		if !errors.Is(applied[0].Err, store.ErrIllegal) {
			w.t.Error(applied[0].Err)
		}
		return
	}
	switch f {
	case faultResolve:
		j.ruled, j.ruling = s.Attempt, d.Ruling.Ruling
	case faultRetry:
		j.retried = true
	case faultReschedule:
		j.moved = true
	case faultCancel:
		j.canceled = true
	case faultUpdate:
		if content.Payload != nil {
			j.text += "."
		}
	default:
	}
}

// deed draws what is asked of a job, and may do it.
func (w *simWorld) deed(j *simJob, s job.Snapshot) (fault, job.Evidence, *store.Content) {
	later := job.Micros(w.dbNow().Add(time.Duration(w.upTo(int(30 * time.Minute)))))
	switch s.State {
	case job.Failed, job.Expired:
		return faultRetry, job.RetryAsked{}, nil
	case job.Canceled:
		if s.LeftBehind() {
			return faultRetry, job.RetryAsked{}, nil
		}
	case job.NeedsResolution, job.Ambiguous:
		if s.State == job.Ambiguous && w.upTo(4) > 0 {
			break
		}
		return faultResolve, w.ruling(j), nil
	case job.Scheduled, job.Retrying:
		switch w.upTo(5) {
		case 0, 1:
			return faultReschedule, job.RescheduleAsked{At: later}, nil
		case 2:
			return faultReschedule, job.RunNowAsked{}, nil
		case 3:
			c := w.update(j)
			return faultUpdate, job.UpdateAsked{Fields: c.Fields()}, c
		}
	default:
	}
	if w.upTo(2) == 0 {
		return faultCancel, job.CancelAsked{}, nil
	}
	return 0, nil, nil
}

// update draws new content: another payload, but for twins, or labels.
func (w *simWorld) update(j *simJob) *store.Content {
	if j.target.twins || w.upTo(4) == 0 {
		return &store.Content{Labels: map[string]string{"changed": fmt.Sprint(j.last.Version)}}
	}
	return &store.Content{Payload: j.payload(j.text + "."), HoldKey: "account"}
}

// ruling is what a person says of a job. One who is never wrong looks at the
// platform, and waits until nothing can come any more. They cannot tell twins apart.
func (w *simWorld) ruling(j *simJob) job.Evidence {
	r := job.Resolved{Actor: "person", Override: true}
	without := []job.Ruling{job.RuleNotSent, job.RuleResend, job.RuleCancel}
	if !w.truthful || j.target.twins {
		j.wronged = true
		r.Ruling = append(without, job.RuleSent)[w.upTo(4)]
		return r
	}
	for _, a := range j.attempts {
		if a.pending || time.Now().Before(a.fence) {
			return nil
		}
	}
	if len(j.posts) == 0 {
		r.Ruling = without[w.upTo(3)]
		return r
	}
	r.Ruling, r.ExternalID = job.RuleSent, j.posts[len(j.posts)-1].id
	if j.target.traits.Class == job.Opaque {
		r.ExternalID = ""
	}
	return r
}
