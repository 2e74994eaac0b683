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

// Erasure removes what somebody asks to have removed, under the rules of retention: of
// jobs that ended LeastKept ago, and that no job that is there replies to.
//
// With a job goes all that Retain removes, and the words in its events, which stay in the
// log. Its key stays bound for as long as Keep.KeepKey says, from the erasure on. An
// ErasedJob stays, which names nobody.
type Erasure interface {
	// EraseJob removes one ended job. ErrNotFound: there is none, perhaps not any more
	// (see ErasedJob). ErrStale for another version. ErrIllegal: it has not ended.
	// ErrKept, as a *KeptError: not yet. ErrQuarantined, ErrClockDoubted: a state that may
	// be old, and a time that is not believed, remove nothing.
	EraseJob(ctx context.Context, p EraseParams) (ErasedJob, error)
	// ErasedJob reads what stays of an erased job of a project. ErrNotFound.
	ErasedJob(ctx context.Context, project string, id job.ID) (ErasedJob, error)
	// EraseProject does one short step of a pass over a project: it deletes its schedules, so
	// that they make no jobs; removes its jobs, as
	// EraseJob does; if none is left, the words and actors in its events; and then its
	// schedules with their firings and items, its
	// deleted connections with their credentials, its logins and its API keys. A
	// connection that is not deleted is in ProjectErasure.Live: the step waits for the
	// caller to delete it.
	//
	// ErrProjectLive: an API key of the project is live. ErrNotFound: there is no such
	// project. ErrIllegal for a place that Next never gave for it. ErrQuarantined,
	// ErrClockDoubted.
	EraseProject(ctx context.Context, p EraseProjectParams) (ProjectErasure, error)
}

var (
	// ErrKept: the job cannot be removed yet. Engines return it as a *KeptError.
	ErrKept = errors.New("kept")
	// ErrProjectLive: an API key of the project is live, so that its holder may go on.
	ErrProjectLive = errors.New("the project has live API keys")
)

// KeptError is ErrKept with what keeps the job.
type KeptError struct {
	// Left is how long the job is kept in any case; 0: that time is over.
	Left time.Duration
	// Until is when that time is over.
	Until time.Time
	// Reply, with Left 0, is a job that is there and replies to the kept one.
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
	// Keep says how long the key stays bound; its other times mean nothing.
	Keep  Keep
	Actor string
}

// ErasedJob is what stays of an erased job: when it did what, and nobody's name. Of what
// was a text it has digests, so that who has the text can compare.
type ErasedJob struct {
	ID      job.ID
	Project string
	// KeyDigest is job.KeyDigest of the idempotency key.
	KeyDigest [sha256.Size]byte
	State     job.State
	Class     job.Class
	Attempts  int
	// Proof is why the effect was believed; 0: there was none. EffectAt is when it became
	// known, and ObjectDigest, if the platform gave an id, ObjectDigest of it.
	Proof        job.Proof
	EffectAt     time.Time
	ObjectDigest []byte
	// ScheduleTime, Created and Ended are the job's.
	ScheduleTime, Created, Ended time.Time
	// Erased is when the job was removed, and Actor who asked for it, as in events.
	Erased time.Time
	Actor  string
}

// ObjectDigest is SHA-256 over a domain, a job's id and the platform's id of its effect,
// each after its length in four bytes, big-endian. The job's id is in it so that digests
// of two jobs say nothing of each other.
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

// EraseOf is what stays of a job that is erased now.
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

// EraseProjectParams asks for one step of a pass over a project.
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
	// Jobs, Connections, APIKeys, Logins, Schedules and Firings were removed for good; of
	// Events the words.
	Jobs, Events, Connections, APIKeys, Logins, Schedules, Firings int
	// Live are connections to be deleted before the pass goes on, at most Limit.
	Live []job.ID
	// Next is where the pass goes on.
	Next string
	// Done says that the pass is over.
	Done bool
	// Rest is what is left, with Done. Jobs keep the rest of the project.
	Rest ProjectRest
}

// ProjectRest is what an erasure leaves for another pass.
type ProjectRest struct {
	// Open have not ended. Kept have, and cannot be removed yet. Each is at most MaxRest,
	// which means that many or more.
	Open, Kept int64
	// Wait is how long until the first of Kept may be removed; 0: not known, because jobs
	// that reply to them are there.
	Wait time.Duration
}

// MaxRest bounds the counts of ProjectRest.
const MaxRest = 10_000

// ErasePhase is a part of a pass over a project.
type ErasePhase int

// The phases of a pass over a project, in their order.
const (
	EraseSchedules ErasePhase = iota
	EraseJobs
	EraseRest
	EraseLog
	EraseHoldings
	// EraseDone is no part of it.
	EraseDone
)

// ErasePlace is what EraseProjectParams.After says, for engines.
type ErasePlace struct {
	Project string
	Phase   ErasePhase
	// Jobs is the place among the ended jobs, Position that in the log.
	Jobs     RetainPlace `json:",omitzero"`
	Position int64       `json:",omitempty"`
}

// ParseErasePlace reads a place of a pass over a project; an empty text is the beginning.
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

// String is what ParseErasePlace reads.
func (p ErasePlace) String() string {
	text, err := json.Marshal(p)
	if err != nil { // numbers, texts and ids
		panic(err)
	}
	return string(text)
}
