package judge

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/internal/proof/chaos/platform"
)

// strangers is the row of effects and jobs that no client asked for.
const strangers = "nobody's"

// made is an effect, as the platform named it.
type made struct{ face, id string }

// subject is one thing that is to happen once, or once for each of its submits.
type subject struct {
	name     string
	submits  []*Submit
	finals   []*Final
	requests int
	faulted  int
	effects  []made
	keys     []string // of requests, each once
	bodies   []string // the same, by digest
	armed    []string // the keys of the attempts that events tell of, each once
}

// trial is a judgement under way.
type trial struct {
	in       Input
	subjects []*subject // in the order in which they came up
	byName   map[string]*subject
	byKey    map[string]*subject
	keyOf    map[string]*subject // by the key of a request, the first that came under it
	tracks   map[string]*track   // by job
	findings []finding
	report   *Report
	rows     map[string]*Row
}

// finding is a violation before its story.
type finding struct {
	kind    Kind
	subject *subject
	detail  string
}

// Judge weighs the accounts of a run against each other. It fails only if one of
// them cannot be read.
func Judge(in Input) (*Report, error) {
	t := &trial{
		in: in, byName: make(map[string]*subject), byKey: make(map[string]*subject), keyOf: make(map[string]*subject), tracks: make(map[string]*track),
		report: &Report{Name: in.Name, Kinds: make(map[Kind]int), Faults: make(map[platform.Fault]int)}, rows: make(map[string]*Row),
	}
	t.gather()
	if err := errors.Join(t.readLog(), t.readEvents()); err != nil {
		return nil, err
	}
	for _, s := range t.subjects {
		t.weigh(s)
	}
	if err := t.tell(); err != nil {
		return nil, err
	}
	t.sum()
	t.report.Undone = undone(t.report.Rows)
	return t.report, nil
}

// find returns the subject with a name, and makes it if it is new.
func (t *trial) find(name string) *subject {
	s := t.byName[name]
	if s == nil {
		s = &subject{name: name}
		t.byName[name] = s
		t.subjects = append(t.subjects, s)
	}
	return s
}

// gather puts together what clients and the service say of each subject.
func (t *trial) gather() {
	for i := range t.in.Submits {
		submit := &t.in.Submits[i]
		s := t.find(submit.Subject)
		s.submits = append(s.submits, submit)
		t.byKey[submit.Key] = s
	}
	for i := range t.in.Finals {
		f := &t.in.Finals[i]
		s := t.byKey[f.Key]
		if s == nil {
			s = t.find(f.Key) // a job that no client asked for
			t.byKey[f.Key] = s
		}
		s.finals = append(s.finals, f)
		t.tracks[f.JobID] = &track{subject: s}
	}
}

// readLog counts what the platform got and did for each subject.
func (t *trial) readLog() error {
	for r, err := range t.in.Log {
		if err != nil {
			return err
		}
		if r.Type == platform.TypeLook {
			t.report.Looks++
			continue
		}
		if t.in.Ignore != nil && t.in.Ignore(r.Subject) {
			continue
		}
		s := t.find(r.Subject)
		switch r.Type {
		case platform.TypeRequest:
			s.requests++
			s.keys, s.bodies = once(s.keys, r.Key), once(s.bodies, r.Body)
			if t.keyOf[r.Key] == nil {
				t.keyOf[r.Key] = s
			}
			if r.Fault != platform.None {
				s.faulted++
				t.report.Faults[r.Fault]++
			}
		case platform.TypeEffect:
			s.effects = append(s.effects, made{face: r.Face, id: r.ID})
		default:
			return fmt.Errorf("the platform's log has a record of type %q", r.Type)
		}
	}
	return nil
}

// once adds what is not in a list yet, and not empty.
func once(list []string, s string) []string {
	if s == "" || slices.Contains(list, s) {
		return list
	}
	return append(list, s)
}

// blame notes a violation.
func (t *trial) blame(k Kind, s *subject, format string, args ...any) {
	t.findings = append(t.findings, finding{kind: k, subject: s, detail: fmt.Sprintf(format, args...)})
	t.report.Kinds[k]++
	t.row(s).Violations++
}

// row returns the row that a subject is counted in.
func (t *trial) row(s *subject) *Row {
	class := strangers
	if len(s.submits) > 0 {
		class = s.submits[0].Class.String()
		if group := s.submits[0].Group; group != "" {
			class += " " + group
		}
		if p := s.policy(); p != job.OnceOrAsk {
			class += " " + p.String()
		}
	}
	r := t.rows[class]
	if r == nil {
		r = &Row{Class: class, Blind: s.blind()}
		t.rows[class] = r
	}
	return r
}

// policy is that of a subject's first submit.
func (s *subject) policy() job.Delivery {
	if len(s.submits) == 0 || s.submits[0].Delivery == 0 {
		return job.OnceOrAsk
	}
	return s.submits[0].Delivery
}

func (s *subject) blind() bool { return len(s.submits) > 0 && s.submits[0].Blind }

func (s *subject) class() job.Class {
	if len(s.submits) == 0 {
		return 0
	}
	return s.submits[0].Class
}

// weigh judges one subject.
func (t *trial) weigh(s *subject) {
	row := t.row(s)
	row.Requests += s.requests
	row.Faulted += s.faulted
	row.Effects += len(s.effects)
	jobs := t.weighSubmits(s, row)
	row.Jobs += jobs
	if jobs == 0 && len(s.finals)+s.requests+len(s.effects) > 0 {
		t.blame(Stranger, s, "%d jobs, %d requests and %d effects that nobody is known to have asked for", len(s.finals), s.requests, len(s.effects))
		return
	}
	t.weighStates(s, row, jobs)
	t.weighEffects(s, row, jobs)
	t.weighIDs(s, row)
	t.weighRequests(s, jobs)
	for _, f := range s.finals {
		t.weighHistory(s, f)
	}
}

// weighSubmits compares what clients were answered with what the service has, and
// counts the jobs that there should be.
func (t *trial) weighSubmits(s *subject, row *Row) (jobs int) {
	for _, submit := range s.submits {
		var ids []string // of this key, by any account
		known, created := false, 0
		note := func(id string) {
			if !slices.Contains(ids, id) {
				ids = append(ids, id)
			}
		}
		for _, f := range s.finals {
			if f.Key == submit.Key {
				known = true
				note(f.JobID)
			}
		}
		for _, a := range submit.Acks {
			note(a.JobID)
			if a.Created {
				created++
			}
			if !a.ScheduleTime.Equal(submit.Acks[0].ScheduleTime) {
				t.blame(MovedTime, s, "key %s was told %v and %v", submit.Key, submit.Acks[0].ScheduleTime, a.ScheduleTime)
			}
		}
		if len(ids) > 1 || created > 1 {
			t.blame(CreatedTwice, s, "key %s was stored %d times as jobs %s", submit.Key, created, strings.Join(ids, ", "))
		}
		switch {
		case known && len(submit.Acks) == 0:
			row.Unanswered++
			jobs++
		case known:
			jobs++
		case len(submit.Acks) > 0:
			jobs++
			row.Lost++
			t.blame(Lost, s, "key %s was acknowledged as job %s, and the service does not know it", submit.Key, submit.Acks[0].JobID)
		}
	}
	return jobs
}

// weighStates counts how jobs ended, and compares that with the number of
// effects.
func (t *trial) weighStates(s *subject, row *Row, jobs int) {
	succeeded, noEffect, unknown, assumed := 0, 0, 0, 0
	for _, f := range s.finals {
		switch {
		case f.State == job.NeedsResolution, f.State == job.Ambiguous && s.blind():
			unknown++
		case !f.State.Terminal():
			row.Lost++
			t.blame(Stuck, s, "job %s is %v", f.JobID, f.State)
		case f.State != job.Succeeded:
			noEffect++
		case f.Proof == job.ProofAssumed && s.policy() == job.AtMostOnce:
			assumed++
		case f.Proof == job.ProofAssumed:
			row.FalseSucceeded++
			t.blame(FalseSucceeded, s, "job %s is SUCCEEDED by an assumption that its policy %v does not allow", f.JobID, s.policy())
		default:
			succeeded++
		}
	}
	row.Succeeded += succeeded
	row.NoEffect += noEffect
	row.Unknown += unknown
	row.Assumed += assumed
	effects := len(s.effects)
	if n := succeeded - effects; n > 0 {
		row.FalseSucceeded += n
		t.blame(FalseSucceeded, s, "%d jobs are SUCCEEDED, and there are %d effects", succeeded, effects)
	}
	rest := max(0, effects-succeeded)
	row.AssumedEffect += min(assumed, rest)
	rest = max(0, rest-assumed)
	row.UnknownEffect += min(unknown, rest)
	// An AT_LEAST_ONCE job that ends so says it of its last round only, if there were more.
	if n := min(effects, jobs) - max(0, max(jobs, len(s.finals))-noEffect); n > 0 && (s.policy() != job.AtLeastOnce || s.arms() <= 1) {
		row.FalseFailed += n
		t.blame(FalseFailed, s, "%d of %d jobs say that there is no effect, and there are %d", noEffect, jobs, effects)
	}
}

// weighEffects checks that there are not too many.
func (t *trial) weighEffects(s *subject, row *Row, jobs int) {
	surplus := len(s.effects) - jobs
	if surplus <= 0 {
		return
	}
	if s.policy() == job.AtLeastOnce {
		row.Resent += surplus
		if arms := s.arms(); len(s.effects) > arms {
			t.blame(BeyondArms, s, "%d effects of %d arms", len(s.effects), arms)
		}
		return
	}
	row.Duplicates++
	row.Surplus += surplus
	t.blame(Duplicate, s, "%d effects of %d jobs", len(s.effects), jobs)
}

// weighIDs checks that the effects that jobs claim are theirs.
func (t *trial) weighIDs(s *subject, row *Row) {
	if len(s.effects) == 0 {
		return // weighStates has said so
	}
	owner := make(map[string]string)
	for _, f := range s.finals {
		switch {
		case f.State != job.Succeeded:
		case f.ExternalID == "":
			if s.class() == job.Observable && f.Proof != job.ProofAssumed {
				row.FalseSucceeded++
				t.blame(FalseSucceeded, s, "job %s is SUCCEEDED and does not say as what", f.JobID)
			}
		case !slices.ContainsFunc(s.effects, func(m made) bool { return m.id == f.ExternalID }):
			row.FalseSucceeded++
			row.WrongID++
			t.blame(FalseSucceeded, s, "job %s is SUCCEEDED as %s, which is no effect of its subject", f.JobID, f.ExternalID)
		case owner[f.ExternalID] != "":
			t.blame(SharedEffect, s, "effect %s is said to be that of jobs %s and %s", f.ExternalID, owner[f.ExternalID], f.JobID)
		default:
			owner[f.ExternalID] = f.JobID
		}
	}
}

// weighRequests checks that each request was armed, came under its job's key, and
// had the bytes of the others.
func (t *trial) weighRequests(s *subject, jobs int) {
	if arms := s.arms(); s.requests > arms && len(s.finals) >= jobs {
		t.blame(Unarmed, s, "%d requests of %d arms", s.requests, arms)
	}
	for _, key := range s.keys {
		if other := t.keyOf[key]; key != "" && other != s {
			t.blame(ForeignKey, s, "a request came under the key %s of %s", key, other.name)
		} else if key != "" && len(s.armed) > 0 && !slices.Contains(s.armed, key) {
			t.blame(ForeignKey, s, "a request came under the key %s, and no attempt did", key)
		}
	}
	if rounds := s.rounds(); len(s.keys) > rounds && len(s.finals) >= jobs {
		t.blame(ForeignKey, s, "requests came under the keys %s in %d rounds", strings.Join(s.keys, ", "), rounds)
	}
	if len(s.bodies) > 1 {
		t.blame(ChangedBody, s, "requests came with the bodies %s", strings.Join(s.bodies, ", "))
	}
}

// rounds counts those of a subject's jobs.
func (s *subject) rounds() (n int) {
	for _, f := range s.finals {
		n += max(1, f.Round)
	}
	return n
}

// arms counts the intents of a subject's jobs.
func (s *subject) arms() (n int) {
	for _, f := range s.finals {
		n += f.Attempts
	}
	return n
}

// owns reports whether any account knows a job to be this subject's.
func (s *subject) owns(id string) bool {
	return slices.ContainsFunc(s.finals, func(f *Final) bool { return f.JobID == id }) ||
		slices.ContainsFunc(s.submits, func(u *Submit) bool {
			return slices.ContainsFunc(u.Acks, func(a Ack) bool { return a.JobID == id })
		})
}
