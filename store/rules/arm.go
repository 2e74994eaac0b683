package rules

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"slices"
	"time"

	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/store"
)

// Rules of this file: no intent is written unless every guard of store.Work.Arm holds at one
// moment. Each guard is one case; guards of a kind are in one function.

// Armable is a job as an intent finds it, read from rows that stay locked until the intent is
// written.
type Armable struct {
	// Snapshot is the job under its lease, at the time that counts as now. Of its request
	// only the fields that changes write are read (see store.Armed).
	*job.Snapshot
	ClaimedAt time.Time
	// Held reports whether its hold key is held (see Hold).
	Held       bool
	Suspension Suspension
	// Stop is the stop that is in force over the job (see store.StopOver); nil: none is.
	Stop *store.Stop
	// UnderWay is the number of the attempt without an outcome; 0: each attempt has one.
	UnderWay int
	// RoundDigest is the digest of the first attempt of the job's round. Only a repeat needs
	// it.
	RoundDigest string
	// CoolDowns are those that apply to the job, and Last returns the last arm of one.
	CoolDowns []store.CoolDown
	Last      func(owner job.ID) store.LastArm
}

// Arm returns nil if the job itself allows an intent. Gate checks other jobs.
func Arm(a store.Arm, j Armable) error {
	for _, guard := range []func(*store.Arm, *Armable) error{leased, wanted, attempted, cooled} {
		if err := guard(&a, &j); err != nil {
			return err
		}
	}
	return nil
}

// MayArm reports whether Arm refuses nothing. Where it is false, a claim that would arm only
// leases the job.
func MayArm(a store.Arm, j Armable) bool { return Arm(a, j) == nil }

// leased checks that the job is as it was when the intent was made, under the same lease.
func leased(a *store.Arm, j *Armable) error {
	want := job.Claimed
	if a.Rearm {
		want = job.Ambiguous
	}
	switch {
	case j.Version != a.Version:
		return fmt.Errorf("%w: version %d, now %d", store.ErrStale, a.Version, j.Version)
	case j.State != want:
		return fmt.Errorf("%w: arm in state %s", store.ErrIllegal, j.State)
	case j.ClaimToken.IsZero() || j.ClaimToken != a.Claim:
		return fmt.Errorf("%w: the lease is lost", store.ErrStale)
	case !j.NextAt.After(j.Now):
		return fmt.Errorf("%w: the lease is over", store.ErrStale)
	}
	return nil
}

// wanted checks that the effect is still wanted, and that no hold stops it. A repeat is wanted
// for as long as the policy says by now; a claim has judged the stored end.
func wanted(a *store.Arm, j *Armable) error {
	end := j.StartDeadline
	if a.Rearm && j.KeepTrying > 0 {
		end = j.Tried(keepTrying(a), j.Now).StartDeadline
	}
	switch {
	case !j.CancelAsked.IsZero():
		return fmt.Errorf("%w: a cancel was asked", store.ErrStale)
	case !end.After(j.Now):
		return store.ErrWindowOver
	}
	if err := j.Suspension.hold(); err != nil {
		return err
	}
	switch {
	case j.Stop != nil && !j.Stop.Admits(j.ClaimToken, j.Now):
		return &store.StoppedError{By: *j.Stop}
	case j.Held:
		return store.ErrHeld
	}
	return nil
}

func keepTrying(a *store.Arm) time.Duration { return cmp.Or(a.KeepTrying, job.DefaultKeepTrying) }

// attempted checks the earlier attempts. A first arm of an effect needs each of them closed.
// A repeat has the effect key and the bytes of its round: only then does the target see a
// repeat instead of a second request.
func attempted(a *store.Arm, j *Armable) error {
	switch {
	case j.UnderWay > 0:
		return fmt.Errorf("%w: attempt %d is under way", store.ErrIllegal, j.UnderWay)
	case j.Attempt == 0 && !Class(a.Class):
		return fmt.Errorf("%w: class %d", store.ErrIllegal, a.Class)
	case !a.Rearm && len(j.Open) > 0:
		return fmt.Errorf("%w: attempt %d is still open", store.ErrIllegal, j.Open[0])
	case !a.Rearm:
		return nil
	case j.RoundArmed.IsZero():
		return fmt.Errorf("%w: re-arm in a round without an attempt", store.ErrIllegal)
	case j.RoundKey != a.EffectKey:
		return fmt.Errorf("%w: re-arm with another effect key", store.ErrIllegal)
	case j.RoundDigest != string(a.Digest):
		return fmt.Errorf("%w: re-arm with other bytes", store.ErrIllegal)
	}
	return nil
}

// Gate returns nil if no other job has an open intent with the content of a gated intent.
// owner is the job that has one in the account; zero: none.
func Gate(a store.Arm, owner job.ID) error {
	if !owner.IsZero() && owner != a.Job {
		return &store.GatedError{By: owner}
	}
	return nil
}

// LookStands returns nil if no attempt with the content of a gated intent was armed since the
// job looked for the content, or if it did not look. arms is how many there were by now. It is
// a count and not a time, because clocks step.
func LookStands(a store.Arm, arms int64) error {
	if a.Looked != nil && *a.Looked != arms {
		return store.ErrLookAgain
	}
	return nil
}

// ContentBucket returns the bucket in which the arms of a content in an account are counted.
// Two contents rarely share one. If they do, an arm of one makes a job with the other look
// again, and no arm is missed.
func ContentBucket(account string, gate []byte) int64 {
	sum := sha256.Sum256(append([]byte(account+"\x00"), gate...))
	return int64(binary.BigEndian.Uint16(sum[:]))
}

// BucketOf is ContentBucket for a content.
func BucketOf(c store.GatedContent) int64 {
	return ContentBucket(Account(c.Connection, c.HoldKey, c.AccountIdentity), c.Gate)
}

// Begin returns the job as a permitted intent leaves it, and the attempt that begins. The
// target still knows the handle of an attempt that is repeated.
func Begin(a store.Arm, j Armable) (job.Snapshot, job.Attempt) {
	s := *j.Snapshot
	s.Job = s.Tried(keepTrying(&a), s.Now)
	attempt := job.Attempt{
		Number: s.Attempt + 1, Round: s.Round, ArmToken: a.Token, Worker: a.Worker,
		ClaimedAt: j.ClaimedAt, ArmedAt: s.Now,
		SendDeadline: soon(s.Now, a.SendBy), AnswerDeadline: soon(s.Now, a.AnswerBy),
		EffectKey: a.EffectKey, RequestDigest: some(a.Digest), Frozen: some(a.Frozen),
		CredentialVersion: a.CredentialVersion, AccountIdentity: a.AccountIdentity, Watermark: a.Watermark, Span: a.Span,
	}
	if a.Rearm {
		attempt.Handle = s.Handle
	}
	if s.Attempt == 0 {
		s.Class = a.Class
	}
	if s.RoundArmed.IsZero() {
		s.RoundArmed, s.RoundKey = s.Now, a.EffectKey
	}
	if !s.PeerEnded && slices.Contains(s.Open, s.Attempt) && s.Fence.After(s.EarlierFence) {
		s.EarlierFence = s.Fence
	}
	s.PeerEnded = false
	s.State, s.Version, s.Attempt = job.Sending, s.Version+1, attempt.Number
	s.Open, s.Fence, s.Handle = append(slices.Clone(s.Open), attempt.Number), soon(s.Now, a.Fence), attempt.Handle
	s.NextAt, s.ClaimToken, s.Worker = s.Fence, job.ID{}, a.Worker
	s.Claims, s.Blocked, s.Updated = 0, "", s.Now
	return s, attempt
}

// ViewOf returns the view of an attempt that has just begun.
func ViewOf(s job.Snapshot, a job.Attempt) AttemptView {
	return AttemptView{
		Number: a.Number, Round: a.Round, ArmedAt: a.ArmedAt, Fence: s.Fence, Handle: a.Handle,
		EffectKey: a.EffectKey, Digest: string(a.RequestDigest),
	}
}

// Class reports whether a class is valid.
func Class(c job.Class) bool { return c >= job.Keyed && c <= job.Opaque }
