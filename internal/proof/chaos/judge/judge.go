// Package judge reports what a crash campaign showed. It is a function of three
// accounts of the same run: what clients were answered, what the platform's log says
// happened, and what the service says in the end. The platform's log decides
// what is true; the service's own database is only ever the accused.
package judge

import (
	"iter"
	"time"

	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/internal/proof/chaos/platform"
)

// Submit is one idempotency key that a client used, and the answers to it.
type Submit struct {
	Key string
	// Subject is what is to happen once, as the platform names it. Submits may share
	// one: then it is to happen once for each.
	Subject  string
	Class    job.Class
	Delivery job.Delivery // zero: Hold
	// Group is what the job is counted with, beside its class; empty: with all of it.
	Group string
	// Blind is set if an outcome may be impossible to look up for good. Many may be left to
	// a person, and a job that is in doubt (AMBIGUOUS) is at rest: it is for hours.
	Blind bool
	// Acks are the answers that came, the repeats' too. None: the service may or may
	// not have the job.
	Acks []Ack
}

// Ack is one answer to a submit.
type Ack struct {
	JobID string
	// ScheduleTime is the time that the service chose, the same in every answer.
	ScheduleTime time.Time
	// Created is set if this call stored the job.
	Created bool
}

// Final is a job as the service told it at the end.
type Final struct {
	JobID, Key string
	// ConnectionID is its connection; empty: it is not known.
	ConnectionID string
	State        job.State
	// Sequence is that of the job's last event; 0: not known.
	Sequence int64
	// Attempts is how many were armed, over all rounds, and Round the newest round. A round
	// has one effect key. 0: it has had one.
	Attempts, Round int
	// ExternalID is the effect's, and Proof why it is believed; zero: there is none.
	ExternalID string
	Proof      job.Proof
	Error      string
}

// Event is one transition as the service told it. Of one job they come in order;
// a repeat is passed over.
type Event struct {
	JobID    string
	Sequence int64
	Time     time.Time
	From, To job.State // From zero: the job's first
	Cause    string
	Actor    string
	Attempt  int
	// EffectKey is the attempt's. Empty: the event concerns none.
	EffectKey string
	Detail    string
	// Cursor is the event's in the log; empty: it is not known.
	Cursor string
}

// Input is all that is known of a run.
type Input struct {
	// Name is what the run was made with: an engine.
	Name    string
	Submits []Submit
	Finals  []Final
	// Log reads the platform's log, as platform.ReadLog does. It is read twice if
	// something is wrong.
	Log iter.Seq2[platform.Record, error]
	// Events reads every event of every job; nil: they were not read. It is read
	// twice if something is wrong.
	Events iter.Seq2[Event, error]
	// Ignore reports subjects that are none of this service's; nil: there are none.
	Ignore func(subject string) bool
	// Stories is how many violations of each kind are printed; all are counted. Zero
	// means 5.
	Stories int
}

// Kind is what is wrong.
type Kind string

// The kinds of violations.
const (
	// Duplicate: more effects than were asked for.
	Duplicate Kind = "duplicate"
	// BeyondArms: more effects of an AT_LEAST_ONCE job than it was armed for.
	BeyondArms Kind = "effects beyond arms"
	// Lost: acknowledged, and the service does not know it.
	Lost Kind = "lost"
	// Stuck: neither terminal nor waiting for a person, when all faults are over.
	Stuck Kind = "stuck"
	// CreatedTwice: one key made two jobs, or was said to be stored twice.
	CreatedTwice Kind = "created twice"
	// MovedTime: repeats were answered with different times.
	MovedTime Kind = "time moved"
	// FalseSucceeded: SUCCEEDED, and there is no effect or another one.
	FalseSucceeded Kind = "false SUCCEEDED"
	// SharedEffect: two jobs say that one effect is theirs.
	SharedEffect Kind = "shared effect"
	// FalseFailed: FAILED, EXPIRED or CANCELED, and there is an effect.
	FalseFailed Kind = "false FAILED"
	// Unarmed: the platform got more requests than were armed.
	Unarmed Kind = "request without intent"
	// ForeignKey: a request came under a key of none of its subject's attempts, or of another
	// subject's, or under more keys than its jobs had rounds.
	ForeignKey Kind = "foreign key"
	// ChangedBody: two requests for one subject have different bodies.
	ChangedBody Kind = "changed body"
	// Stranger: an effect or a job that no client asked for.
	Stranger Kind = "stranger"
	// Gap: a job's events are not one for each transition, without a gap.
	Gap Kind = "gap in events"
	// Illegal: an event has a transition that the table does not have.
	Illegal Kind = "illegal transition"
)

// Kinds lists the kinds of violations.
var Kinds = []Kind{
	Duplicate, BeyondArms, Lost, Stuck, CreatedTwice, MovedTime, FalseSucceeded, SharedEffect, FalseFailed, Unarmed,
	ForeignKey, ChangedBody, Stranger, Gap, Illegal,
}

// Violation is one thing that is wrong with one subject.
type Violation struct {
	Kind    Kind   `json:"kind"`
	Subject string `json:"subject"`
	Detail  string `json:"detail"`
	// Story is everything that is known of the subject, a line each.
	Story []string `json:"story,omitempty"`
}

// Row counts the jobs of one class and policy.
type Row struct {
	// Class is the class, the group, and the delivery if it is not ONCE_OR_ASK; "total" for all.
	Class string `json:"class"`
	// Blind is its submits'.
	Blind bool `json:"blind,omitempty"`
	// Jobs is how many were acknowledged or are known to the service; Unanswered are
	// those of them whose client never got an answer.
	Jobs       int `json:"jobs"`
	Unanswered int `json:"unanswered"`
	Requests   int `json:"requests"`
	// Faulted are the requests that something went wrong with.
	Faulted int `json:"faulted"`
	Effects int `json:"effects"`
	// Duplicates are subjects with more effects than jobs, Surplus the effects beyond.
	// Those of AT_LEAST_ONCE jobs, which may duplicate, are Resent.
	Duplicates int `json:"duplicates"`
	Surplus    int `json:"surplus"`
	Resent     int `json:"resent"`
	// Lost counts Lost and Stuck.
	Lost           int `json:"lost"`
	FalseSucceeded int `json:"false_succeeded"`
	// WrongID are those of FalseSucceeded that name an effect, and not theirs.
	WrongID     int `json:"wrong_id"`
	FalseFailed int `json:"false_failed"`
	// How jobs ended. Unknown are those that wait for a person, with an effect or
	// without one; Assumed those that AT_MOST_ONCE took as sent.
	Succeeded     int `json:"succeeded"`
	NoEffect      int `json:"no_effect"`
	Unknown       int `json:"unknown"`
	UnknownEffect int `json:"unknown_with_effect"`
	Assumed       int `json:"assumed"`
	AssumedEffect int `json:"assumed_with_effect"`
	// Violations counts all kinds.
	Violations int `json:"violations"`
}

// Report is the judgement of a run.
type Report struct {
	Name  string `json:"name"`
	Rows  []Row  `json:"rows"`
	Total Row    `json:"total"`
	// Kinds counts the violations; Violations has the first of each kind.
	Kinds      map[Kind]int `json:"kinds,omitempty"`
	Violations []Violation  `json:"violations,omitempty"`
	// Undone has the classes that left too much undone: who sends nothing, or asks a
	// person about everything, makes no duplicates either.
	Undone []string `json:"undone,omitempty"`
	// Faults counts what went wrong with the requests for the subjects, by kind;
	// those that Input.Ignore reports are not in it.
	Faults map[platform.Fault]int `json:"faults,omitempty"`
	// Looks and Events are how many were read.
	Looks  int `json:"looks"`
	Events int `json:"events"`
}

// OK reports whether nothing is wrong.
func (r *Report) OK() bool { return r.Total.Violations == 0 && len(r.Undone) == 0 }

// Bound95 is the rule of three: with 95 % confidence the rate of something that
// was not seen in n independent trials is below this.
func Bound95(n int) float64 {
	if n <= 0 {
		return 1
	}
	return min(1, 3/float64(n))
}
