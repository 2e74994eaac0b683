package judge_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/internal/proof/chaos/judge"
	"github.com/fireonce/fireonce/internal/proof/chaos/platform"
)

// TestRandomCorrectRuns: runs of a service that keeps every rule, over a platform
// with every fault, have no violation; and their numbers add up.
func TestRandomCorrectRuns(t *testing.T) {
	for seed := range uint64(300) {
		r, jobs := correct(rand.New(rand.NewPCG(seed, 1)))
		got := r.judge(t)
		sum := got.Total.Succeeded + got.Total.NoEffect + got.Total.Unknown + got.Total.Assumed
		if !got.OK() || got.Total.Jobs != jobs || sum != jobs {
			t.Fatalf("seed %d: %d jobs, %+v", seed, jobs, got)
		}
	}
}

// TestRandomRunsWithOneDuplicate: one effect more is found, in any run that has
// one at all, unless its job may be sent again.
func TestRandomRunsWithOneDuplicate(t *testing.T) {
	tried := 0
	for seed := range uint64(300) {
		rng := rand.New(rand.NewPCG(seed, 2))
		r, _ := correct(rng)
		resend := make(map[string]bool)
		for _, s := range r.submits {
			resend[s.Subject] = s.Delivery == job.AtLeastOnce
		}
		var effects []platform.Record
		for _, rec := range r.log {
			if rec.Type == platform.TypeEffect && !resend[rec.Subject] {
				effects = append(effects, rec)
			}
		}
		if len(effects) == 0 {
			continue
		}
		tried++
		again := effects[rng.IntN(len(effects))]
		r.log = append(r.log, again)
		if got := r.judge(t); got.Total.Duplicates != 1 || got.Violations[0].Subject != again.Subject {
			t.Fatalf("seed %d, %s: %+v", seed, again.Subject, got)
		}
	}
	if tried < 200 {
		t.Errorf("only %d runs had an effect", tried)
	}
}

// correct makes up a run of a service that keeps every rule.
func correct(rng *rand.Rand) (r *run, jobs int) {
	r = new(run)
	jobs = 1 + rng.IntN(20)
	for i := range jobs {
		class := classes[rng.IntN(len(classes))]
		policy := []job.Delivery{job.OnceOrAsk, job.AtMostOnce, job.AtLeastOnce}[rng.IntN(3)]
		r.submit(fmt.Sprintf("s%d", i), class, policy)
		f := &r.finals[i]
		submit := &r.submits[i]
		for range rng.IntN(3) { // answers that were lost, and repeats
			submit.Acks = append(submit.Acks, judge.Ack{JobID: f.JobID, ScheduleTime: noon})
		}
		if rng.IntN(5) == 0 {
			submit.Acks[0].Created = false // the answer that said so was lost
		}
		if rng.IntN(10) == 0 {
			submit.Acks = nil
		}
		if rng.IntN(10) == 0 {
			r.to(f, job.Canceled)
			continue
		}
		send(rng, r, f, class, policy)
	}
	return r, jobs
}

// send sends a job until it is done.
func send(rng *rand.Rand, r *run, f *judge.Final, class job.Class, policy job.Delivery) {
	effect := ""
	r.to(f, job.Claimed, job.Sending)
	for {
		fault := platform.Kinds[rng.IntN(len(platform.Kinds))]
		if rng.IntN(3) == 0 {
			fault = platform.None
		}
		switch {
		case rng.IntN(8) == 0: // killed before the write
		case effect == "" || class != job.Keyed:
			if id := r.request(f, class, fault); id != "" {
				effect = id
			}
		default:
			r.log = append(r.log, platform.Record{Type: platform.TypeRequest, Face: platform.FaceKeyed, Subject: r.log[len(r.log)-1].Subject, Key: f.JobID, Fault: fault})
			if r.log[len(r.log)-1].Subject == "" {
				panic("a repeat of nothing")
			}
			fault = platform.None
		}
		if effect != "" && (fault == platform.None || fault == platform.Delay) && rng.IntN(8) != 0 {
			succeed(r, f, class, effect, job.ProofResponse)
			return
		}
		if effect == "" && (fault == platform.RateLimit || fault == platform.Refuse) {
			if fault == platform.Refuse && rng.IntN(2) == 0 {
				r.to(f, job.Failed)
				return
			}
			r.to(f, job.Retrying, job.Claimed, job.Sending)
			continue
		}
		r.to(f, job.Ambiguous)
		switch {
		case class == job.Keyed:
			r.to(f, job.Sending)
		case class == job.Observable && effect != "":
			succeed(r, f, class, effect, job.ProofObserved)
			return
		case class == job.Observable:
			r.to(f, job.Retrying, job.Claimed, job.Sending)
		case policy == job.AtMostOnce:
			succeed(r, f, class, "", job.ProofAssumed)
			return
		case policy == job.AtLeastOnce && f.Attempts < 5:
			r.to(f, job.Retrying, job.Claimed, job.Sending)
		default:
			r.to(f, job.NeedsResolution)
			return
		}
	}
}

func succeed(r *run, f *judge.Final, class job.Class, effect string, why job.Proof) {
	r.to(f, job.Succeeded)
	f.Proof = why
	if class == job.Observable {
		f.ExternalID = effect
	}
}
