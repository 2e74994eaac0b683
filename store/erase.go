package store

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/fireonce/fireonce/internal/job"
)

// Erasure removes jobs and projects on request, under the rules of retention: only jobs that
// ended at least LeastKept ago, and to which no stored job replies.
//
// An erasure of a job removes all that Retain removes, and the texts in its events, which
// stay in the log. Its key stays bound for as long as Keep.KeepKey returns, counted from the
// erasure. An ErasedJob stays, which has no personal data.
type Erasure interface {
	// EraseJob removes one ended job. ErrNotFound: the job does not exist, or no longer (see
	// ErasedJob). ErrStale for another version. ErrIllegal: it has not ended. ErrKept, as a
	// *KeptError: not yet. ErrQuarantined, ErrClockSuspect: a state that may be old, and a
	// time that is not believed, remove nothing.
	EraseJob(ctx context.Context, p EraseParams) (ErasedJob, error)
	// ErasedJob reads the record of an erased job of a project. ErrNotFound.
	ErasedJob(ctx context.Context, project string, id job.ID) (ErasedJob, error)
	// EraseProject does one short step of a pass over a project. The pass deletes its
	// schedules, so that they make no jobs; removes its jobs, as EraseJob does; if none is
	// left, removes the texts and actors from its events; and then removes its schedules with
	// their firings and items, its deleted connections with their credentials, its logins,
	// its API keys, its plans and its stops. A connection that is not deleted is in ProjectErasure.Live: the step
	// waits for the caller to delete it.
	//
	// ErrProjectLive: an API key of the project is live. ErrNotFound: the project does not
	// exist. ErrIllegal for an After that is not the Next of a step for this project.
	// ErrQuarantined, ErrClockSuspect.
	EraseProject(ctx context.Context, p EraseProjectParams) (ProjectErasure, error)
}

var (
	// ErrKept: the job cannot be removed yet. Engines return it as a *KeptError.
	ErrKept = errors.New("kept")
	// ErrProjectLive: an API key of the project is live, so that its holder could still add
	// data.
	ErrProjectLive = errors.New("the project has live API keys")
)

// KeptError is ErrKept with what keeps the job.
type KeptError struct {
	// Left is for how much longer the job is kept in any case; 0: that time is over.
	Left time.Duration
	// Until is when that time is over.
	Until time.Time
	// Reply, with Left 0, is a stored job that replies to the kept one.
	Reply job.ID
}

func (e *KeptError) Error() string {
	if e.Left > 0 {
		return fmt.Sprintf("%v: for another %v", ErrKept, e.Left)
	}
	return fmt.Sprintf("%v: job %s replies to it", ErrKept, e.Reply)
}

// Is makes the error one of ErrKept.
func (e *KeptError) Is(target error) bool { return target == ErrKept }

// KeptFor returns a *KeptError for a job that ended less than LeastKept ago.
func KeptFor(ended, now time.Time) error {
	until := ended.Add(LeastKept)
	if left := until.Sub(now); left > 0 {
		return &KeptError{Left: left, Until: until}
	}
	return nil
}

// EraseParams names a job to erase.
type EraseParams struct {
	Project string
	Job     job.ID
	Version int64 // that was read; another version is ErrStale
	// Keep sets how long the key stays bound. Its other durations are ignored.
	Keep  Keep
	Actor string
}

// ErasedJob is the record that stays of an erased job: times and outcomes, and no personal
// data. Texts are kept as digests, so that a holder of the text can compare.
type ErasedJob struct {
	ID      job.ID
	Project string
	// KeyDigest is job.KeyDigest of the idempotency key.
	KeyDigest [sha256.Size]byte
	State     job.State
	Class     job.Class
	Attempts  int
	// Proof is why the effect was believed; 0: there was none. EffectAt is when it became
	// known. ObjectDigest is the result of the function ObjectDigest, if the platform gave an
	// id.
	Proof        job.Proof
	EffectAt     time.Time
	ObjectDigest []byte
	// ScheduleTime, Created and Ended are the job's.
	ScheduleTime, Created, Ended time.Time
	// Erased is when the job was removed, and Actor the caller that asked for it, as in
	// events.
	Erased time.Time
	Actor  string
}

// ObjectDigest is SHA-256 over a domain, a job's id and the platform's id of its effect, each
// after its length in four bytes, big-endian. It includes the job's id so that the digests of
// two jobs cannot be compared.
func ObjectDigest(id job.ID, externalID string) []byte {
	if externalID == "" {
		return nil
	}
	var b []byte
	for _, part := range [...]string{"fireonce erased object 1", id.String(), externalID} {
		b = append(binary.BigEndian.AppendUint32(b, uint32(len(part))), part...)
	}
	sum := sha256.Sum256(b)
	return sum[:]
}

// EraseOf returns the record of a job that is erased now.
func EraseOf(s job.Snapshot, now time.Time, actor string) ErasedJob {
	out := ErasedJob{
		ID: s.ID, Project: s.Project, KeyDigest: job.KeyDigest(s.Project, s.Key), State: s.State, Class: s.Class,
		Attempts: s.Attempt, ScheduleTime: s.ScheduleTime, Created: s.Created, Ended: s.Ended, Erased: now, Actor: actor,
	}
	if e := s.Effect; e != nil {
		out.Proof, out.EffectAt, out.ObjectDigest = e.Proof, e.At, ObjectDigest(s.ID, e.ExternalID)
	}
	return out
}

// EraseProjectParams requests one step of a pass over a project.
type EraseProjectParams struct {
	Project string
	Keep    Keep
	Actor   string
	// After is the Next of the step before; empty: a new pass begins.
	After string
	// Limit bounds the jobs, events, firings or connections of the step, at most MaxBatch.
	Limit int
}

// ProjectErasure is what one step did.
type ProjectErasure struct {
	// Jobs, Connections, APIKeys, Logins, Schedules and Firings count what was removed for
	// good, Events those that lost their texts.
	Jobs, Events, Connections, APIKeys, Logins, Schedules, Firings int
	// Live are connections that must be deleted before the pass goes on, at most Limit.
	Live []job.ID
	// Next is the After of the next step.
	Next string
	// Done reports that the pass is over.
	Done bool
	// Rest is what is left when Done is set. While jobs are left, the rest of the project is
	// kept.
	Rest ProjectRest
}

// ProjectRest is what an erasure leaves for another pass.
type ProjectRest struct {
	// Open counts jobs that have not ended, Kept ended jobs that cannot be removed yet. Each
	// is at most MaxRest, which means that many or more.
	Open, Kept int64
	// Wait is how long until the first of Kept may be removed; 0: unknown, because stored
	// jobs reply to them.
	Wait time.Duration
}

// MaxRest bounds the counts of ProjectRest.
const MaxRest = 10_000

// ErasePhase is a part of a pass over a project.
type ErasePhase int

// The phases of a pass over a project, in their order.
const (
	EraseSubscriptions ErasePhase = iota
	EraseSchedules
	EraseNotices
	EraseJobs
	EraseRest
	EraseNoticeLog
	EraseLog
	EraseHoldings
	// EraseDone is the end of the pass.
	EraseDone
)

// ErasePlace is the content of EraseProjectParams.After, for engines.
type ErasePlace struct {
	Project string
	Phase   ErasePhase
	// Jobs is the position among the ended jobs, Position that in the log.
	Jobs     RetainPlace `json:",omitzero"`
	Position int64       `json:",omitempty"`
}

// ParseErasePlace reads the position of a pass over a project; an empty text is the
// beginning.
func ParseErasePlace(project, text string) (ErasePlace, error) {
	p := ErasePlace{Project: project}
	if text == "" {
		return p, nil
	}
	p.Project = ""
	err := json.Unmarshal([]byte(text), &p)
	if err != nil || p.Project != project || p.Phase < 0 || p.Phase >= EraseDone || p.Position < 0 {
		return p, fmt.Errorf("%w: no place of an erasure of project %s: %q", ErrIllegal, project, text)
	}
	return p, nil
}

// String returns the text that ParseErasePlace reads.
func (p ErasePlace) String() string { return asJSON(p) }

// After returns where an erasure goes on after a step at this place, or that it is done. more
// reports that the phase has more to do.
func (p ErasePlace) After(more bool) (next string, done bool) {
	if !more {
		p = ErasePlace{Project: p.Project, Phase: p.Phase + 1}
	}
	if p.Phase == EraseDone {
		return "", true
	}
	return p.String(), false
}
