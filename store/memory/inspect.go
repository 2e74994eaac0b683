package memory

import (
	"slices"
	"time"

	"github.com/fireonce/fireonce/internal/job"
)

// A checker of invariants calls these functions after every step of a simulation. They are
// not part of the contract: they are cheap, they work after Close too, and their results
// share the store's memory where that never changes: payloads, frozen bytes, digests, labels,
// errors and rulings are for reading only.

// Record is all that the store keeps of one job.
type Record struct {
	Snapshot job.Snapshot
	// Attempts are all that were armed, oldest first.
	Attempts []Attempt
	// Events are all of the job, in order.
	Events []job.Event
	// Effect is the job's row of effects, in any state; nil: none.
	Effect *Effect
	// Intent is the job's open intent, if it is gated; nil: none.
	Intent *Intent
}

// Attempt is one armed try, with its fence.
type Attempt struct {
	job.Attempt
	Fence time.Time
}

func (a Attempt) public() job.Attempt {
	out := a.Attempt
	out.RequestDigest, out.Frozen = slices.Clone(out.RequestDigest), slices.Clone(out.Frozen)
	return out
}

// Effect is the object that settles a job. Owns reports that it settles no other: at most one
// row for each account, namespace and external id owns it.
type Effect struct {
	job.Effect
	Job                job.ID
	Account, Namespace string
	Owns               bool
	// Notified reports that the job has its event of cause EFFECT_SHARED.
	Notified bool
}

func (e *Effect) object() object { return object{e.Account, e.Namespace, e.ExternalID} }

// Intent keeps other jobs with the same content on the same account from being armed.
type Intent struct {
	Account, Fingerprint string
	// Attempt is the last attempt that was armed under it.
	Attempt int
}

func (i *Intent) gate() openContent { return openContent{i.Account, i.Fingerprint} }

// Version counts the writes to jobs, leases included.
func (s *Store) Version() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return uint64(len(s.journal))
}

// Changed returns the jobs that were written since a Version, each once, in the order of
// their first write.
func (s *Store) Changed(since uint64) []job.ID {
	s.mu.Lock()
	defer s.mu.Unlock()
	news := s.journal[min(since, uint64(len(s.journal))):]
	var out []job.ID
	seen := make(map[job.ID]bool, len(news))
	for _, id := range news {
		if !seen[id] {
			seen[id] = true
			out = append(out, id)
		}
	}
	return out
}

// Inspect returns a job's record; the zero Record when there is no such job.
func (s *Store) Inspect(id job.ID) Record {
	s.mu.Lock()
	defer s.mu.Unlock()
	r, ok := s.jobs[id]
	if !ok {
		return Record{}
	}
	return Record{
		Snapshot: r.view(s.present()), Attempts: slices.Clone(r.attempts),
		Events: slices.Clip(r.events), Effect: copied(r.effect), Intent: copied(r.intent),
	}
}

// Effects returns all effects, in the order in which their jobs were made.
func (s *Store) Effects() []Effect {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []Effect
	for _, r := range s.all {
		if r.effect != nil {
			out = append(out, *r.effect)
		}
	}
	return out
}
