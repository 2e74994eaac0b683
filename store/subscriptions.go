package store

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/fireonce/fireonce/internal/job"
)

// Rules of this file:
//   - a notice is a job of job.NoticeProject, and a row that is open exactly while that job is
//     under way. At most one notice of a subscription is open, so they are sent in order;
//   - a step reads a subscription, its events and its notice, decides, and writes everything in
//     one transaction under the revision that it read. So each event is in a notice, in the
//     memory, or after the position, whatever crashes and however many servers decide.

// Bounds of subscriptions.
const (
	// MaxSubscriptionSpec bounds the bytes of Subscription.Spec.
	MaxSubscriptionSpec = 16 << 10
	// MaxMemory bounds the bytes of Subscription.Memory.
	MaxMemory = 64 << 10
	// NoticesKept is how many notices of a subscription are kept.
	NoticesKept = 250
	// noticesRemoved bounds the notices that one step removes.
	noticesRemoved = 10
)

// Subscriptions stores who is reported of events, and the notices.
type Subscriptions interface {
	// CreateSubscription stores a subscription, ACTIVE, from the log's present end. A bound key
	// returns the bound subscription with created=false, in any state, and the caller compares
	// the fingerprints. ErrQuota, but never for a bound key. ErrIllegal for one out of bounds.
	CreateSubscription(ctx context.Context, n NewSubscription) (s Subscription, created bool, err error)
	// Subscription reads a subscription by id, or by its key when Ref.Key is set. A deleted one
	// is found, without its spec. ErrNotFound.
	Subscription(ctx context.Context, ref Ref) (Subscription, error)
	// ListSubscriptions reads a project's subscriptions that are not deleted, newest first, at
	// most limit. After an id it goes on behind that one; ErrNotFound if that does not exist.
	ListSubscriptions(ctx context.Context, project string, after job.ID, limit int) ([]Subscription, error)
	// ChangeSubscription writes a subscription as its caller wants it, without a notice. A
	// change of Position applies to the database's incarnation. It fails as
	// Noticing.StepSubscription does.
	ChangeSubscription(ctx context.Context, s Subscription) (Subscription, error)
	// Notices reads notices with numbers below before, newest first; 0: all. ErrNotFound: no
	// such subscription in the project.
	Notices(ctx context.Context, ref Ref, before int64, limit int) ([]Notice, error)
}

// Noticing makes the notices of subscriptions.
type Noticing interface {
	// LeaseNotices makes the worker the server that makes notices until lease from now, and
	// reports false while that is another one that is enlisted. No safety rests on it.
	LeaseNotices(ctx context.Context, worker string, lease time.Duration) (bool, error)
	// DueSubscriptions returns subscriptions with a step to make, in the order of their ids,
	// after an id, and how long until the next time at which one of the others is due; at most
	// wait. None are due in a quarantine, nor while the clock is suspect.
	DueSubscriptions(ctx context.Context, after job.ID, limit int, wait time.Duration) ([]DueSubscription, time.Duration, error)
	// StepSubscription writes a step.
	//
	//   - ErrNotFound: no such subscription. ErrStale: another revision than the one that was read.
	//   - ErrQuarantined, ErrClockSuspect.
	//   - ErrIllegal: it is out of bounds, a notice is open already, or the job cannot be made
	//     under its key. ErrNotFound as a *ConnectionGoneError: the connection was deleted.
	StepSubscription(ctx context.Context, step SubscriptionStep) (Subscription, error)
}

// SubscriptionState is the state of a subscription. The numbers are the contract's.
type SubscriptionState int

// The states.
const (
	SubscriptionActive SubscriptionState = iota + 1
	// SubscriptionPaused makes no notices of events. A notice under way goes on.
	SubscriptionPaused
	// SubscriptionDeleted is left by no change. Its step cancels a notice under way.
	SubscriptionDeleted
)

// SubscriptionPause is why a subscription is paused; 0: it is not. The numbers are the contract's.
type SubscriptionPause int

// The causes of a pause.
const (
	SubscriptionPausedByPerson SubscriptionPause = iota + 1
	SubscriptionPausedByFailures
)

// AskedTest is the Subscription.Asked of a test.
const AskedTest = -1

// Subscription is who is reported of which events, and how far.
type Subscription struct {
	ID      job.ID
	Project string
	Key     string
	// Callbacks: the service keeps it for the callbacks to its connection.
	Callbacks   bool
	Fingerprint job.Fingerprint
	// Version rises by one with each change by a caller and each change of the state: it is the
	// etag. Revision rises by one with each write.
	Version, Revision int64
	Connection        job.ID
	DisplayName       string
	// Spec and Memory are not interpreted by the store. Memory has what a decision needs of
	// earlier events.
	Spec, Memory []byte

	State      SubscriptionState
	PauseCause SubscriptionPause
	Note       string
	PausedAt   time.Time

	// Position is up to where the log was read, of an incarnation of the database.
	Position, Incarnation int64
	// Next is when a step is due although there is no event; zero: never. With OnlyThen, events
	// make none due before.
	Next     time.Time
	OnlyThen bool
	// Asked is AskedTest, or the number of a notice to send again; 0: nothing is asked for.
	Asked int64

	// Number is that of the newest notice. Open is the one that is under way, with its job; 0:
	// none is. Only a step changes them.
	Number, Open int64
	OpenJob      job.ID
	// Failed is the notice whose jobs ended without success, Failures how many in a row, and
	// Failing since when; 0: none. LastError describes the last one.
	Failed, Failures int64
	Failing          time.Time
	LastError        string
	// Delivered is when a notice was last sent; zero: never.
	Delivered time.Time

	Created, Updated, Deleted time.Time
	CreatedBy, UpdatedBy      string
}

// NewSubscription is a subscription to store. The store sets its state, times, version and
// position.
type NewSubscription struct {
	Subscription Subscription
	// Most is how many the project may have that are not deleted; 0: any number. Those for
	// callbacks do not count.
	Most int64
}

// Stored returns the subscription as it is stored at a time, from a position on.
func (n NewSubscription) Stored(now time.Time, position, incarnation int64) (Subscription, error) {
	s := n.Subscription
	s.State, s.Version, s.Revision, s.Created, s.Updated = SubscriptionActive, 1, 1, now, now
	s.UpdatedBy, s.Position, s.Incarnation, s.Next = s.CreatedBy, position, incarnation, micros(s.Next)
	return s, s.check()
}

func (s *Subscription) check() error {
	switch {
	case s.ID.IsZero(), s.Project == "", s.Key == "", s.Connection.IsZero():
		return fmt.Errorf("%w: a subscription without an id, project, key or connection", ErrIllegal)
	case len(s.Spec) > MaxSubscriptionSpec, len(s.Memory) > MaxMemory:
		return fmt.Errorf("%w: subscription %s: %d bytes of a spec, %d of a memory", ErrIllegal, s.ID, len(s.Spec), len(s.Memory))
	case s.State < SubscriptionActive || s.State > SubscriptionDeleted, (s.PauseCause > 0) != (s.State == SubscriptionPaused),
		s.Position < 0, s.Asked < AskedTest, (s.Failures > 0) != (s.Failed > 0), s.Failed > s.Number:
		return fmt.Errorf("%w: subscription %s in state %d", ErrIllegal, s.ID, s.State)
	}
	return nil
}

// Clone returns a copy that shares nothing.
func (s Subscription) Clone() Subscription {
	s.Spec, s.Memory = slices.Clone(s.Spec), slices.Clone(s.Memory)
	return s
}

// NoticeKind is what a notice reports. The numbers are the contract's.
type NoticeKind int

// The kinds of notices.
const (
	// NoticeEvents has events in full.
	NoticeEvents NoticeKind = iota + 1
	// NoticeDigest counts events.
	NoticeDigest
	// NoticeTest has no event: a person asked for it.
	NoticeTest
	// NoticeSilence has no event: there was none for too long.
	NoticeSilence
	// NoticeRecovered reports that what failed succeeds again.
	NoticeRecovered
	// NoticeConnections reports of connections: they are on hold, or work again.
	NoticeConnections
)

// Notice is what was sent for a subscription.
type Notice struct {
	Subscription job.ID
	Number       int64
	Kind         NoticeKind
	// It reports the events after the position After, up to To, of an incarnation.
	After, To, Incarnation int64
	Events                 int64
	// Tries counts the jobs that carry it, and Job is the newest of them.
	Tries int64
	Job   job.ID
	Made  time.Time
	// Ended and Outcome are how the newest job ended; zero: it is under way.
	Ended   time.Time
	Outcome job.State
}

// DueSubscription is a subscription with a step to make, and what the step depends on.
type DueSubscription struct {
	Subscription Subscription
	// Now is the store's time.
	Now time.Time
	// Open is the notice that is open, or whose job has failed, or that is asked for; zero:
	// none, or it is no longer kept.
	Open Notice
	// Job is the newest job of that notice, if it exists still.
	Job *job.Snapshot
	// Connection is the zero connection if it was erased.
	Connection Connection
}

// SubscriptionStep is one step.
type SubscriptionStep struct {
	// Subscription is the next subscription, with the revision that was read. The store sets
	// Revision, Number, Open and OpenJob, and Version if the state changes. UpdatedBy is the
	// caller that changes it, which raises Version too; empty: no caller does.
	Subscription Subscription
	// Ended, when set, is the state in which the open notice's job has ended.
	Ended job.State
	// Notice, when set, is a new notice: its Kind, After, To and Events count.
	Notice *Notice
	// Again, when positive, is an earlier notice that is sent again.
	Again int64
	// Job is the job of either.
	Job *NewJob
}

// NoticeName names a notice in the keys of its jobs.
func NoticeName(subscription job.ID, number int64) string {
	return fmt.Sprintf("%s/%d", subscription, number)
}

// ConnectionGoneError is ErrNotFound for a notice's connection.
type ConnectionGoneError struct{ Connection job.ID }

func (e *ConnectionGoneError) Error() string {
	return fmt.Sprintf("connection %s was deleted", e.Connection)
}

// Is makes the error one of ErrNotFound.
func (e *ConnectionGoneError) Is(target error) bool { return target == ErrNotFound }

// Stepped returns the subscription after a step over a stored one at a time, and the job to make.
// For engines.
func (p SubscriptionStep) Stepped(was Subscription, now time.Time) (next Subscription, made *NewJob, err error) {
	next = p.Subscription.Clone()
	if was.Revision != next.Revision {
		return was, nil, ErrStale
	}
	if was.State == SubscriptionDeleted && next.State != SubscriptionDeleted {
		return was, nil, fmt.Errorf("%w: subscription %s is deleted", ErrIllegal, was.ID)
	}
	if next.Version = was.Version; next.State != was.State || p.byCaller() {
		next.Version++
	}
	next.Revision++
	next.Project, next.Key, next.Fingerprint, next.Callbacks = was.Project, was.Key, was.Fingerprint, was.Callbacks
	next.Connection = was.Connection // claims find the notice under way by it
	next.Created, next.CreatedBy, next.Updated, next.Next = was.Created, was.CreatedBy, was.Updated, micros(next.Next)
	if next.Version != was.Version {
		next.Updated = now
	}
	next.UpdatedBy = cmp.Or(next.UpdatedBy, was.UpdatedBy)
	next.Number, next.Open, next.OpenJob = was.Number, was.Open, was.OpenJob
	if next.PausedAt = (time.Time{}); next.State == SubscriptionPaused {
		if next.PausedAt = was.PausedAt; next.PausedAt.IsZero() {
			next.PausedAt = now
		}
	}
	if next.Deleted = was.Deleted; next.State == SubscriptionDeleted {
		if next.Deleted.IsZero() {
			next.Deleted = now
		}
		next.Spec, next.Memory, next.Note, next.Next, next.OnlyThen, next.Asked = nil, nil, "", time.Time{}, false, 0
	}
	if p.Ended != 0 {
		if next.Open == 0 {
			return was, nil, fmt.Errorf("%w: no notice of subscription %s is under way", ErrIllegal, was.ID)
		}
		next.Open, next.OpenJob = 0, job.ID{}
	}
	if p.Job == nil {
		return next, nil, next.check()
	}
	if next.Open != 0 || (p.Notice == nil) == (p.Again <= 0) || p.Again > was.Number {
		return was, nil, fmt.Errorf("%w: a second notice of subscription %s", ErrIllegal, was.ID)
	}
	if next.Open = p.Again; p.Notice != nil {
		next.Number++
		next.Open = next.Number
	}
	n := *p.Job
	n.Spec.Project, n.Spec.Connection = job.NoticeProject(was.Project), next.Connection
	n.Spec.Key = job.NoticeKey(NoticeName(was.ID, next.Open), n.Spec.ID.String())
	n.Actor, next.OpenJob = NoticeActor(was.ID), n.Spec.ID
	return next, &n, next.check()
}

// byCaller reports whether a caller changes the subscription: a step leaves the author.
func (p SubscriptionStep) byCaller() bool { return p.Subscription.UpdatedBy != "" }

// NoticeActor is the author of the jobs of a subscription's notices.
func NoticeActor(subscription job.ID) string { return "subscription:" + subscription.String() }

// RemovedUpTo returns up to which number notices are no longer kept once there is one with this
// number, and how many of them a step removes. For engines.
func RemovedUpTo(number int64) (upTo int64, most int32) { return number - NoticesKept, noticesRemoved }

// Told returns the number of the notice that the next step is about: the one under way, or else
// the one that is asked for, or whose job has failed; 0: there is none.
func (s *Subscription) Told() int64 {
	return cmp.Or(s.Open, max(s.Asked, 0), s.Failed)
}
