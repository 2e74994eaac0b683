package sim

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"time"

	"github.com/fireonce/fireonce/internal/connector"
	"github.com/fireonce/fireonce/internal/job"
)

// errPanic makes the connector panic.
var errPanic = errors.New("panic")

// send asks whether the bytes may go and writes them: nothing comes between the two,
// unless a run asks for what is outside the assumptions.
func (s *simSession) send(c connector.Commit, handle string, out *job.Outcome) error {
	w := s.w
	switch {
	case w.hit(faultDeadLine):
		*out = job.Outcome{Result: job.ResultNotSent, Kind: job.FailTransient, Message: "dead line"}
		return nil
	case w.hit(faultPanicBefore):
		return errPanic
	}
	if err := c.MaySend(); err != nil {
		w.stats.stopped++
		*out = job.Outcome{Result: job.ResultNotSent, Kind: job.FailTransient, Message: err.Error()}
		return nil //nolint:nilerr // the refusal is the outcome
	}
	if frozen := w.outsideFreeze(); frozen > 0 {
		*out = simUnknown("the process stood still")
		w.answerIn(frozen)
		w.director.plan(frozen, "thawed: the write goes out", func() {
			var late job.Outcome
			_ = s.wire(c, handle, &late)
		})
		return nil
	}
	return s.wire(c, handle, out)
}

// wire is the moment when the request leaves. What becomes of it is drawn here.
func (s *simSession) wire(c connector.Commit, handle string, out *job.Outcome) error {
	w, now := s.w, time.Now()
	a := w.leaves(s, c)
	latest := a.fence.Sub(now) - 1 // the platform acts by then, just before the fence, or never
	answer := max(a.answerBy.Sub(now), 0)
	slow := time.Duration(0)
	if w.hit(faultSlowAnswer) {
		slow = time.Duration(w.upTo(int(answer)))
	}
	arrived := s.target.keys[c.EffectKey]
	commit := func() job.Outcome {
		if s.target.traits.Class == job.Keyed && !s.target.traits.DedupesInFlight && arrived == nil {
			return s.postUnder(c) // it looks for the key as a request arrives, and stores it with the effect
		}
		return s.commit(c, handle)
	}
	w.answerIn(slow)
	defer func() {
		if out.Result != job.ResultUnknown && out.Result != 0 {
			s.target.answered = now
		}
		w.killedProbing(s.node, s.job, c.Attempt)
	}()
	switch {
	case s.isIll(a, answer, latest, commit, out):
	case w.refuses(s.target, s.version, faultAuthLate):
		*out = simRejected(job.FailAuth, 401)
	case w.hit(faultLostRequest):
		w.answerIn(w.oneOf(0, answer))
		*out = simUnknown("connection reset")
		out.PeerEnded = w.upTo(2) == 0
	case w.hit(faultLateRequest) && latest > 0:
		gone := w.oneOf(0, answer)
		s.commitLater(w.near(latest), commit, a)
		w.answerIn(gone)
		*out = simUnknown("no answer")
	case w.hit(faultLostAnswer):
		commit()
		w.answerIn(w.oneOf(0, slow, answer))
		*out = simUnknown("connection reset")
		out.PeerEnded = w.upTo(2) == 0
	case w.hit(faultServerError):
		if w.upTo(3) > 0 {
			commit()
		}
		*out = simUnknown("internal server error")
		out.HTTPStatus = []int{500, 502, 504}[w.upTo(3)]
		out.PeerEnded, out.Down = out.HTTPStatus == 500, true
	case w.hit(faultRejected):
		kinds := []job.FailureKind{job.FailTransient, job.FailRateLimited, job.FailPermanent, job.FailTransient}
		*out = simRejected(kinds[w.upTo(4)], 422)
		if out.Kind == job.FailRateLimited {
			out.HTTPStatus, out.RetryAfter = 429, time.Duration(w.upTo(int(5*time.Minute)))
		}
		w.refused(s.job.id, out.Kind, out.RetryAfter)
	case w.hit(faultPanicAfter):
		commit()
		return errPanic
	default:
		*out = commit()
	}
	return nil
}

// commitLater lets a request act after a while.
func (s *simSession) commitLater(in time.Duration, commit func() job.Outcome, a *simAttempt) {
	a.pending = true
	if slow := s.w.outsideSlow(); slow > 0 {
		in = time.Until(a.fence) + slow
	}
	s.w.director.plan(in, "a late request acts", func() {
		a.pending = false
		commit()
	})
}

// commit is the platform taking up a request.
func (s *simSession) commit(c connector.Commit, handle string) job.Outcome {
	t, w := s.target, s.w
	switch t.traits.Class {
	case job.Keyed:
		if first := t.keys[c.EffectKey]; first != nil && time.Since(first.at) < t.traits.KeyWindow {
			w.stats.deduped++
			return job.Outcome{Result: job.ResultSucceeded, HTTPStatus: 200, ExternalID: first.id}
		}
		return s.postUnder(c)
	case job.Handle:
		return s.publishContainer(c, handle)
	default:
		p := s.post(c)
		out := job.Outcome{Result: job.ResultSucceeded, HTTPStatus: 200, ExternalID: p.id}
		if t.traits.Class == job.Opaque {
			out.ExternalID = ""
		}
		return out
	}
}

// postUnder makes an effect and remembers its key.
func (s *simSession) postUnder(c connector.Commit) job.Outcome {
	p := s.post(c)
	s.target.keys[c.EffectKey] = p
	return job.Outcome{Result: job.ResultSucceeded, HTTPStatus: 200, ExternalID: p.id}
}

// publishContainer is the commit of a HANDLE target: immediately, or after processing.
func (s *simSession) publishContainer(c connector.Commit, handle string) job.Outcome {
	w, box := s.w, s.target.containers[handle]
	if box.posted != nil {
		return job.Outcome{Result: job.ResultSucceeded, ExternalID: box.posted.id}
	}
	if box.taken {
		return job.Outcome{Result: job.ResultAccepted, HTTPStatus: 202, Handle: handle}
	}
	if w.upTo(2) == 0 {
		box.posted, box.taken = s.post(c), true
		return job.Outcome{Result: job.ResultSucceeded, ExternalID: box.posted.id}
	}
	took := time.Duration(w.upTo(int(10 * time.Minute)))
	a := s.job.attempts[c.Attempt]
	box.taken, box.ends, box.fails = true, time.Now().Add(took), w.hit(faultProcessing)
	if !box.fails {
		a.pending, a.accepted = true, true
		w.director.plan(took, "processing ends", func() {
			a.pending = false
			box.posted = s.post(c)
		})
	}
	return job.Outcome{Result: job.ResultAccepted, HTTPStatus: 202, Handle: handle}
}

// post makes the effect.
func (s *simSession) post(c connector.Commit) *simPost {
	t, w := s.target, s.w
	w.stats.effects++
	p := &simPost{
		id: fmt.Sprint("post-", w.stats.effects), key: c.EffectKey, text: textOfFrozen(t, s.frozen),
		job: s.job, attempt: c.Attempt, at: time.Now(),
	}
	p.visible = p.at
	if lag := t.traits.ReadLag; lag > 0 && w.hit(faultReadLag) {
		p.visible = p.at.Add(w.near(lag))
	}
	t.posts = append(t.posts, p)
	s.job.posts = append(s.job.posts, p)
	w.note(s.name, "effect", s.job.id, c.Attempt, p.id)
	w.effectIsOne(s, p)
	return p
}

// simUnknown is an answer that says nothing about the effect.
func simUnknown(why string) job.Outcome {
	return job.Outcome{Result: job.ResultUnknown, Kind: job.FailAmbiguous, Message: why}
}

// simRejected is the platform's refusal.
func simRejected(kind job.FailureKind, status int) job.Outcome {
	return job.Outcome{Result: job.ResultRejected, Kind: kind, Message: "refused", HTTPStatus: status}
}

func simDigest(text string) []byte {
	sum := sha256.Sum256([]byte(text))
	return sum[:]
}
