// Package incident groups jobs that need a person, and lists what a decision about many of them
// risks and which of them it must leave out. It has functions of values only: what store.Incidents
// reads comes in, and nothing is stored.
package incident

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/base32"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/store"
)

// Rules of this file: an incident's id follows from its key, so it is the same on every server and
// after every restart, and for as long as a job is in the incident.

const (
	// FirstLooks is how many looks or repeats may leave an AMBIGUOUS job unsettled before it is in
	// an incident: most outcomes are settled by then.
	FirstLooks = 2
	// LateAfter is how long a job that nothing holds is due before it is in an incident.
	LateAfter = time.Minute
)

// Kind is the kind of an incident. Values are those of the contract.
type Kind uint8

const (
	// Unknown: the jobs may have been sent.
	Unknown Kind = iota + 1
	// Failed: the jobs FAILED or EXPIRED, with a proof that they had no effect.
	Failed
	// Held: the jobs are due, and a credential, a pause or a rate limit holds them.
	Held
	// Late: the jobs have been due for a while, and nothing holds them.
	Late
)

// Kinds are all of them.
var Kinds = []Kind{Unknown, Failed, Held, Late}

// Trouble returns the kind of trouble whose jobs may be in an incident of a kind.
func (k Kind) Trouble() store.TroubleKind {
	switch k {
	case Unknown:
		return store.TroubleUnknown
	case Failed:
		return store.TroubleFailed
	default:
		return store.TroubleWaiting
	}
}

// Key is what the jobs of an incident have in common.
type Key struct {
	Kind        Kind
	Connection  job.ID
	Destination string
	Cause       Cause
}

// Cause is the first cause of an incident.
type Cause struct {
	Kind       job.FailureKind
	HTTPStatus int
	// Restored: no attempt is open, and the database was restored since.
	Restored bool
	// Hold and Auth are what holds the jobs of Held.
	Hold store.HoldCause
	Auth job.AuthCause
}

// idDigits is how many characters of an id follow the prefix: 80 bits.
const idDigits = 16

var idEncoding = base32.StdEncoding.WithPadding(base32.NoPadding)

// ID returns the incident's id in a project.
func (k Key) ID(project string) string {
	h := sha256.New()
	for _, part := range []string{"fireonce incident 1", project, string(k.Connection[:]), k.Destination, string(k.Cause.Hold)} {
		fmt.Fprintf(h, "%d:%s", len(part), part)
	}
	fmt.Fprintf(h, "%d %d %d %t %d", k.Kind, k.Cause.Kind, k.Cause.HTTPStatus, k.Cause.Restored, k.Cause.Auth)
	return "inc_" + strings.ToLower(idEncoding.EncodeToString(h.Sum(nil))[:idDigits])
}

// Incident is a group of jobs.
type Incident struct {
	Key
	// Jobs are its jobs, those that have been in it for longest first.
	Jobs []store.Trouble
	// Since and Last are since when the first and the last of them are in it.
	Since, Last time.Time
}

// KeyOf returns the key of the incident that a job is in; ok is false if it is in none.
func KeyOf(t *store.Trouble, now time.Time) (k Key, ok bool) {
	k = Key{Connection: t.Connection, Destination: t.HoldKey}
	switch t.State {
	case job.NeedsResolution, job.Ambiguous:
		if t.State == job.Ambiguous && t.Looks+t.Attempts-1 < FirstLooks {
			return k, false
		}
		k.Kind = Unknown
		k.Cause = Cause{Kind: t.First.Kind, HTTPStatus: t.First.HTTPStatus}
		if !t.Open && !t.Seen.Has(job.SawCandidates) {
			k.Cause = Cause{Kind: job.FailAmbiguous, Restored: true}
		}
	case job.Failed, job.Expired:
		if t.Ruled {
			return k, false
		}
		k.Kind, k.Cause = Failed, Cause{Kind: t.First.Kind, HTTPStatus: t.First.HTTPStatus}
	case job.Scheduled, job.Retrying:
		switch {
		case t.Hold != "":
			k.Kind, k.Cause = Held, Cause{Hold: t.Hold, Auth: t.Auth}
		case now.Sub(t.Since) >= LateAfter:
			k.Kind = Late
		default:
			return k, false
		}
	default:
		return k, false
	}
	return k, true
}

// Unproven reports whether an attempt of an ended job was closed without a proof that it had no
// effect: by a person's ruling, or by its delivery.
func Unproven(t *store.Trouble) bool { return t.Ruled || t.Results.Has(job.ResultSuperseded) }

// Group makes the incidents of jobs, the largest first. It counts them before it copies them: there
// may be many.
func Group(now time.Time, lists ...[]store.Trouble) []*Incident {
	sizes := make(map[Key]int)
	for _, jobs := range lists {
		for i := range jobs {
			if k, ok := KeyOf(&jobs[i], now); ok {
				sizes[k]++
			}
		}
	}
	byKey := make(map[Key]*Incident, len(sizes))
	out := make([]*Incident, 0, len(sizes))
	for _, jobs := range lists {
		for i := range jobs {
			k, ok := KeyOf(&jobs[i], now)
			if !ok {
				continue
			}
			in, known := byKey[k]
			if !known {
				in = &Incident{Key: k, Since: jobs[i].Since, Last: jobs[i].Since, Jobs: make([]store.Trouble, 0, sizes[k])}
				byKey[k] = in
				out = append(out, in)
			}
			in.add(jobs[i])
		}
	}
	for _, in := range out {
		OldestFirst(in.Jobs)
	}
	slices.SortStableFunc(out, func(a, b *Incident) int {
		return cmp.Or(
			cmp.Compare(len(b.Jobs), len(a.Jobs)), cmp.Compare(a.Kind, b.Kind), a.Since.Compare(b.Since),
			bytes.Compare(a.Jobs[0].Job[:], b.Jobs[0].Job[:]),
		)
	})
	return out
}

func (in *Incident) add(t store.Trouble) {
	in.Jobs = append(in.Jobs, t)
	if t.Since.Before(in.Since) {
		in.Since = t.Since
	}
	if t.Since.After(in.Last) {
		in.Last = t.Since
	}
}

// OldestFirst orders jobs by since when they are in trouble.
func OldestFirst(jobs []store.Trouble) {
	slices.SortFunc(jobs, func(a, b store.Trouble) int {
		return cmp.Or(a.Since.Compare(b.Since), bytes.Compare(a.Job[:], b.Job[:]))
	})
}

// Looks counts the jobs of an incident by the most that looks saw of each.
type Looks struct {
	None, Inconclusive, Absent, Candidates, Present int
	// Last is when the last look ended; zero: there was none.
	Last time.Time
}

// Looks counts what looks saw.
func (in *Incident) Looks() Looks {
	var out Looks
	for i := range in.Jobs {
		t := &in.Jobs[i]
		switch seen := t.Seen; {
		case seen.Has(job.SawPresent) || seen.Has(job.SawHandle):
			out.Present++
		case seen.Has(job.SawCandidates):
			out.Candidates++
		case seen.Has(job.SawAbsent):
			out.Absent++
		case seen.Has(job.SawInconclusive):
			out.Inconclusive++
		default:
			out.None++
		}
		if t.SeenAt.After(out.Last) {
			out.Last = t.SeenAt
		}
	}
	return out
}

// NextLook returns when the next look or repeat is due; zero: none is.
func (in *Incident) NextLook() time.Time {
	var next time.Time
	for i := range in.Jobs {
		if at := in.Jobs[i].NextAt; in.Jobs[i].State == job.Ambiguous && (next.IsZero() || at.Before(next)) {
			next = at
		}
	}
	return next
}

// HeldSince and HeldUntil return since when and until when the jobs are held, as far as it is known.
func (in *Incident) HeldSince() time.Time { return in.Jobs[0].HeldSince }

// HeldUntil returns until when the jobs are held; zero: it is not known.
func (in *Incident) HeldUntil() time.Time { return in.Jobs[0].HeldUntil }

// Counts are the jobs by state and by effect class.
func (in *Incident) Counts() (states map[job.State]int, classes map[job.Class]int) {
	states, classes = make(map[job.State]int), make(map[job.Class]int)
	for i := range in.Jobs {
		states[in.Jobs[i].State]++
		classes[in.Jobs[i].Class]++
	}
	return states, classes
}
