package incident

import (
	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/store"
)

// Rules of this file: one decision about many jobs is for those of which nothing but the lack of
// an answer is known. A job of which more was seen is left out, however weak that is: a person looks
// at it alone.

// Resolve returns what one ruling about many jobs does with a job: store.PlanActs, or why it is left
// out.
func Resolve(t *store.Trouble, ruling job.Ruling, override bool) store.PlanOutcome {
	switch {
	case t.State == job.Ambiguous && !override:
		return store.PlanLooking
	case t.Seen.Has(job.SawCandidates):
		return store.PlanCandidates
	case ruling == job.RuleSent && t.Seen.Has(job.SawAbsent):
		return store.PlanContrary
	case ruling != job.RuleSent && (t.Seen.Has(job.SawPresent) || t.Seen.Has(job.SawHandle) || t.Results.Has(job.ResultAccepted)):
		return store.PlanContrary
	default:
		return store.PlanActs
	}
}

// Redeliver returns what another try of many jobs does with a job.
func Redeliver(t *store.Trouble) store.PlanOutcome {
	if Unproven(t) {
		return store.PlanUnproven
	}
	return store.PlanActs
}

// Risk is what happens if a decision is wrong. Values are those of the contract.
type Risk uint8

const (
	// RiskNone: nothing.
	RiskNone Risk = iota + 1
	// RiskDuplicate: the effect is there twice.
	RiskDuplicate
	// RiskMissing: the effect is missing, and the job counts as done.
	RiskMissing
	// RiskDenied: the effect is there, and the job says that it is not.
	RiskDenied
)

// DecisionRisk is what one decision about jobs of one class risks.
type DecisionRisk struct {
	// Ruling; 0: another try.
	Ruling  job.Ruling
	Class   job.Class
	Risk    Risk
	Summary string
	// LeftOut are the jobs of the class that it would leave out.
	LeftOut int
}

// Rulings are the decisions that a person can make about an unknown outcome, in the order in which
// they are shown.
var Rulings = []job.Ruling{job.RuleSent, job.RuleNotSent, job.RuleResend, job.RuleCancel}

const (
	sentRisk    = "nothing more is sent. If the effect does not exist after all, it is missing, and the job counts as SUCCEEDED"
	notSentRisk = "nothing more is sent. If it was sent after all, the effect is there, and the job says FAILED: a later retry makes it a second time"
	cancelRisk  = "nothing more is sent. If it was sent after all, the effect is there, and the job says CANCELED"
	retryRisk   = "sent again under the same key: each earlier attempt is proven to have had no effect"
)

// resendRisks say what RESEND risks at a target of a class. In each case the request has a new key.
var resendRisks = map[job.Class]string{
	job.Keyed:      "sent again under a new key: if the first request acted, the receiver acts a second time. While the old key is remembered, a repeat of the first request would not: see next_look_time",
	job.Handle:     "sent again with a new handle: if the first one was committed, the effect is there twice",
	job.Observable: "looked for once more, then sent again: if the first request acted where the look does not find it, the effect is there twice",
	job.Opaque:     "sent again: if the first request acted, the effect is there twice, and nothing can detect it",
}

// Risks returns what each decision that is possible about an incident risks, for each class of its jobs.
func (in *Incident) Risks() []DecisionRisk {
	_, classes := in.Counts()
	var out []DecisionRisk
	for class := job.Keyed; class <= job.Opaque; class++ {
		if classes[class] == 0 {
			continue
		}
		switch in.Kind {
		case Unknown:
			for _, ruling := range Rulings {
				r := rulingRisk(ruling, class)
				r.LeftOut = in.leftOut(class, func(t *store.Trouble) store.PlanOutcome { return Resolve(t, ruling, false) })
				out = append(out, r)
			}
		case Failed:
			out = append(out, DecisionRisk{Class: class, Risk: RiskNone, Summary: retryRisk, LeftOut: in.leftOut(class, Redeliver)})
		case Held, Late:
		}
	}
	return out
}

func (in *Incident) leftOut(class job.Class, judge func(*store.Trouble) store.PlanOutcome) (n int) {
	for i := range in.Jobs {
		if t := &in.Jobs[i]; t.Class == class && judge(t).LeftOut() {
			n++
		}
	}
	return n
}

func rulingRisk(ruling job.Ruling, class job.Class) DecisionRisk {
	out := DecisionRisk{Ruling: ruling, Class: class}
	switch ruling {
	case job.RuleSent:
		out.Risk, out.Summary = RiskMissing, sentRisk
	case job.RuleNotSent:
		out.Risk, out.Summary = RiskDenied, notSentRisk
	case job.RuleCancel:
		out.Risk, out.Summary = RiskDenied, cancelRisk
	case job.RuleResend:
		out.Risk, out.Summary = RiskDuplicate, resendRisks[class]
	}
	return out
}
