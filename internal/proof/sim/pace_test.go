package sim

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/fireonce/fireonce/internal/connector"
	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/store/memory"
)

// Rules of this file: what docs/protocol.md says of cool-downs and of the look for the
// content, held against the arms as they truly were, and against what the platform showed.

// keepsApart: COOL_DOWN, of an intent that is no repeat of an unknown attempt. No other job of
// the connection, or of the schedule, began an effect so short a time ago.
func (w *simWorld) keepsApart(j *simJob, is *simAttempt) {
	if !w.cools || is.repeats {
		return
	}
	for _, other := range w.jobs {
		if other == j || other.target != j.target {
			continue
		}
		least := j.target.account.limits.CoolDown
		if j.schedule != nil && other.schedule == j.schedule {
			least = max(least, j.schedule.coolDown)
		}
		for n, a := range other.attempts {
			apart := is.armed.Sub(a.armed)
			if w.clockJumps {
				apart += w.leapt()
			}
			if !a.repeats && apart < least {
				w.broke("COOL_DOWN", j, "armed %v after attempt %d of job %d; they are to be %v apart", is.armed.Sub(a.armed), n, other.index, least)
			}
		}
	}
}

// isPaced reports whether a job may have waited for a cool-down, or for a look.
func (w *simWorld) isPaced(j *simJob) bool {
	return j.target.account.limits.CoolDown > 0 || j.spec.Spec.CoolDown > 0 || j.spec.Spec.SkipIfPresent > 0
}

// presence is a look for the content before an arm.
type presence struct {
	worker  string
	at      time.Time
	verdict job.Verdict
	claim   job.ID // under which it was made
}

// Backdate is connector.Backdater: the simulated platform reads back by time.
func (c simConnector) Backdate(mark string, by time.Duration) (string, error) {
	return fmt.Sprint(mark, " less ", by), nil
}

// backdatedBy is how long before its attempt's a watermark of Backdate is.
func backdatedBy(w *simWorld, mark string) time.Duration {
	_, text, _ := strings.Cut(mark, " less ")
	by, err := time.ParseDuration(text)
	if err != nil {
		w.t.Error(err)
	}
	return by
}

// lookForContent looks for any object with a content.
func (c simConnector) lookForContent(ctx context.Context, o connector.Opening, l connector.Look) job.Observation {
	w, t, j := c.w, c.target(o.Settings), c.w.byID[o.Job]
	out := job.Observation{Verdict: job.SawInconclusive, Detail: blindLook}
	defer func() {
		if p := recover(); p != nil {
			w.meets(c.node, j)
			panic(p)
		}
	}()
	err := c.ask("Present", o.Job, 0, ctx, func() error {
		w.stats.looks++
		older := l.Now.IsZero() // the second look, for what is certainly not the job's own
		since, until := time.Now().Add(-l.Now.Sub(l.First.ArmedAt)), time.Now()
		if older {
			since = j.attempts[1].armed.Add(-backdatedBy(w, l.First.Watermark))
			until = since.Add(l.Fence.Sub(l.First.ArmedAt))
		}
		if !older {
			j.presence = presence{worker: c.name, at: time.Now(), verdict: job.SawInconclusive, claim: w.store.Inspect(o.Job).Snapshot.ClaimToken}
		}
		switch {
		case w.hit(faultPanicBefore):
			return errPanic
		case w.hit(faultBlindLook):
			return errConnector
		case w.refuses(t, o.Credential.Version, faultAuth):
			out.Kind, out.Detail = job.FailAuth, "the credential was refused"
			return nil
		case w.hit(faultDoubtfulPresence):
			out.Verdict = []job.Verdict{job.SawInconclusive, job.SawCandidates}[w.upTo(2)]
			out.Detail = "it may have been edited since"
			if !older {
				j.presence.verdict = out.Verdict
			}
			return nil
		}
		out = job.Observation{Verdict: job.SawAbsent}
		if p := t.shows(string(o.Prepared.Frozen), since, until); p != nil {
			out = job.Observation{Verdict: job.SawPresent, ExternalID: p.id}
		}
		if !older {
			j.presence.verdict = out.Verdict
		}
		return nil
	})
	if err != nil && !errors.Is(err, errConnector) {
		return job.Observation{Verdict: job.SawInconclusive, Detail: err.Error()}
	}
	return out
}

// shows is the newest post with a text that can be seen and was made in a time; nil: none.
func (t *target) shows(text string, since, until time.Time) (newest *simPost) {
	for _, p := range t.posts {
		if p.text == text && !p.visible.After(time.Now()) && !p.at.Before(since) && !p.at.After(until) {
			newest = p
		}
	}
	return newest
}

// presenceWasLooked: PRESENT, of every intent: a look of the same worker, under the same claim,
// found that the content is not there, and no attempt of another job of the account was armed
// with the content since, through whichever connection and server.
func (w *simWorld) presenceWasLooked(j *simJob, a memory.Attempt) {
	if j.spec.Spec.SkipIfPresent == 0 {
		return
	}
	seen := j.presence
	ruled := a.Number > 1 && j.ruling == job.RuleResend && seen.verdict != job.SawInconclusive
	if seen.worker != a.Worker || seen.verdict != job.SawAbsent && !ruled || seen.claim != j.last.ClaimToken {
		w.broke("PRESENT", j, "attempt %d armed by %s; the last look was by %s at %v: %s", a.Number, a.Worker, seen.worker, seen.at.Sub(w.started), seen.verdict)
	}
	for _, other := range w.jobs {
		if other == j || other.target != j.target || other.text != j.text {
			continue
		}
		for n, by := range other.attempts {
			if by.armed.After(seen.at) {
				w.broke("PRESENT", j, "attempt %d armed by a look at %v, and attempt %d of job %d at %v", a.Number, seen.at.Sub(w.started), n, other.index, by.armed.Sub(w.started))
			}
		}
	}
}

// wasPresent returns why a job may not end because its content is there; empty: it may. Its
// own effect is no reason.
func (w *simWorld) wasPresent(j *simJob) string {
	w.stats.present++
	j.found = true
	if len(j.last.Open) == 0 && j.last.Attempt > 0 {
		w.stats.presentLater++
	}
	others := slices.ContainsFunc(j.target.posts, func(p *simPost) bool { return p.job != j && p.text == j.text })
	switch {
	case j.presence.verdict != job.SawPresent:
		return fmt.Sprintf("the content is said to be there, and the last look said %s", j.presence.verdict)
	case !others:
		return "the content is said to be there, and no other job has made it"
	default:
		return ""
	}
}

// presenceIsAnEnd: PRESENT, for a job that was found there and goes on all the same. Only its
// own effect, learned late, may still move it.
func (w *simWorld) presenceIsAnEnd(j *simJob, r memory.Record) {
	own := len(j.posts) > 0 && r.Snapshot.State == job.Succeeded
	if j.found && !own && (len(r.Attempts) > j.last.Attempt || r.Snapshot.Effect != nil || r.Snapshot.State != job.Canceled) {
		w.broke("PRESENT", j, "its content was there, and now it is %s with %d attempts", r.Snapshot.State, len(r.Attempts))
	}
}
