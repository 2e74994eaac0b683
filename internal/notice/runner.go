package notice

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"time"

	"github.com/fireonce/fireonce/clients/go/fireoncev1"
	"github.com/fireonce/fireonce/clients/go/subscriptionsv1"
	"github.com/fireonce/fireonce/internal/connector"
	"github.com/fireonce/fireonce/internal/failpoint"
	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/internal/sleep"
	"github.com/fireonce/fireonce/store"
)

const (
	// idle is the longest time between two looks; hints cause earlier ones.
	idle = 5 * time.Second
	// rest is the shortest time between two looks, so that a busy log costs a bounded part of
	// the store.
	rest = 100 * time.Millisecond
	// lease is how long no other server makes notices after the one that does hangs. One that
	// has died is known immediately.
	lease = 30 * time.Second
	// callTimeout bounds one call of the store.
	callTimeout = 30 * time.Second
	// unread is when a subscription is looked at again that had nothing to read, although the
	// log has later events: on PostgreSQL an older transaction hides them.
	unread = time.Second
	// batch bounds the subscriptions of one read.
	batch = 50
	// reads bounds the reads of the log for one step: what is behind them is another notice.
	reads = 200
)

// Store is the part of store.Store that a Runner needs.
type Store interface {
	store.Noticing
	store.EventLog
	store.Notifier
	JobNames(ctx context.Context, project string, ids []job.ID) (map[job.ID]store.JobName, error)
	Apply(ctx context.Context, items []store.Change) ([]store.Applied, error)
}

// Wire converts to the contract as the API does. *server.Server is one.
type Wire interface {
	// NoticeEvents returns events as a stream sends them, with or without content.
	NoticeEvents(ctx context.Context, project string, page store.EventPage, content bool) ([]*fireoncev1.JobEvent, error)
	// NoticeCursor returns a position in the log of a project.
	NoticeCursor(project string, incarnation, position int64) string
	// NoticeCause returns a cause.
	NoticeCause(c job.Cause) fireoncev1.EventCause
	// NoticeConnections returns how connections are, with or without content.
	NoticeConnections(ctx context.Context, project string, ids []job.ID, content bool) ([]*subscriptionsv1.ConnectionChange, error)
	// ConnectionKeys returns the keys of connections.
	ConnectionKeys(ctx context.Context, project string, ids []job.ID) (map[job.ID]string, error)
}

// Config configures a Runner. All fields but Link and Log are required.
type Config struct {
	Store      Store
	Wire       Wire
	Connectors *connector.Registry
	NewID      func() job.ID
	// Worker is the name under which this server is enlisted.
	Worker string
	// Link is the address at which people find the service; empty: notices have no link.
	Link string
	Log  *slog.Logger
}

// Runner makes notices. Any number of them may work on one database.
type Runner struct {
	cfg Config
	// seen has how far subscriptions were read without a write, by their ids: an event that
	// no one is reported of should cost no write.
	seen map[job.ID]place
	// failing are the subscriptions whose last step failed, by their ids.
	failing map[job.ID]putOff
}

// putOff is how often in a row the steps of a subscription failed, and until when it has no other one.
type putOff struct {
	failures int64
	until    time.Time
}

// longestPutOff bounds the wait after a step that failed. The first wait is unread.
const longestPutOff = time.Minute

// place is how far a subscription was read, at a revision of it.
type place struct {
	revision, position int64
	memory             memory
	since              time.Time
}

// unwritten bounds how long a position that moved is not written.
const unwritten = 10 * time.Second

// New returns a Runner. Run starts it.
func New(c Config) *Runner {
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	return &Runner{cfg: c, seen: make(map[job.ID]place), failing: make(map[job.ID]putOff)}
}

// Run makes notices until ctx ends.
func (r *Runner) Run(ctx context.Context) {
	hints, stop := r.cfg.Store.Watch(store.WatchEvents)
	defer stop()
	failing := false
	for sleep.For(ctx, rest) {
		wait, err := r.Once(ctx)
		if failed := err != nil && ctx.Err() == nil; failed != failing {
			if failing = failed; failed {
				r.cfg.Log.ErrorContext(ctx, "notices cannot be made; trying again", "err", err)
			} else {
				r.cfg.Log.InfoContext(ctx, "notices are made again")
			}
		}
		select {
		case <-ctx.Done():
		case <-hints:
		case <-time.After(wait):
		}
	}
}

// Once makes a step of each subscription that has one to make, if this is the server that makes
// notices. It returns how long none will have another one, unless a hint comes.
func (r *Runner) Once(ctx context.Context) (wait time.Duration, err error) {
	mine, err := bounded(ctx, func(ctx context.Context) (bool, error) {
		return r.cfg.Store.LeaseNotices(ctx, r.cfg.Worker, lease)
	})
	if err != nil || !mine {
		return idle, err
	}
	wait = idle
	var after job.ID
	for {
		var due []store.DueSubscription
		_, err := bounded(ctx, func(ctx context.Context) (none struct{}, err error) {
			due, wait, err = r.cfg.Store.DueSubscriptions(ctx, after, batch, wait)
			return none, err
		})
		if err != nil {
			return idle, err
		}
		for _, d := range due {
			after = d.Subscription.ID
			if left := r.failing[after].until.Sub(d.Now); left > 0 {
				wait = min(wait, left)
				continue
			}
			more, err := bounded(ctx, func(ctx context.Context) (bool, error) { return r.step(ctx, d) })
			switch {
			case err == nil:
				delete(r.failing, after)
			case errors.Is(err, store.ErrStale), errors.Is(err, store.ErrNotFound):
				more = true // it was changed or erased meanwhile
				delete(r.failing, after)
			case errors.Is(err, store.ErrQuarantined), errors.Is(err, store.ErrClockSuspect), errors.Is(err, store.ErrUnavailable):
				return idle, err
			default:
				// One subscription must not stop the others.
				later := r.putOff(d)
				r.cfg.Log.ErrorContext(ctx, "a notice cannot be made; trying again", "subscription", d.Subscription.Key,
					"project", d.Subscription.Project, "in", later.String(), "err", err)
			}
			if more {
				wait = 0
			}
			wait = min(wait, unread)
		}
		if len(due) < batch {
			return wait, ctx.Err()
		}
	}
}

// putOff puts the next step of a subscription off whose step failed, and returns for how long.
func (r *Runner) putOff(d store.DueSubscription) time.Duration {
	f := r.failing[d.Subscription.ID]
	wait := min(longestPutOff, unread<<min(f.failures, 10))
	r.failing[d.Subscription.ID] = putOff{failures: f.failures + 1, until: d.Now.Add(wait)}
	return wait
}

// bounded runs one call with a timeout.
func bounded[T any](ctx context.Context, call func(context.Context) (T, error)) (T, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	return call(ctx)
}

// step makes one step of a subscription. more reports that it has another one to make.
func (r *Runner) step(ctx context.Context, d store.DueSubscription) (more bool, err error) {
	p := store.SubscriptionStep{Subscription: d.Subscription.Clone()}
	p.Subscription.UpdatedBy = ""
	if d.Subscription.Open != 0 {
		done, err := r.end(ctx, d, &p)
		if err != nil || !done {
			return true, err
		}
	}
	s := &p.Subscription
	write, more, err := r.next(ctx, d, &p)
	if err == nil && !write && p.Ended == 0 {
		return more, nil
	}
	if cannot, ok := errors.AsType[*CannotCarryError](err); ok {
		return false, r.pause(ctx, d, cannot.Why)
	}
	if errors.Is(err, errNoConnector) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	failpoint.Hit(failpoint.NoticeDecided)
	_, err = r.cfg.Store.StepSubscription(ctx, p)
	if _, gone := errors.AsType[*store.ConnectionGoneError](err); gone {
		return false, r.pause(ctx, d, "the connection was deleted")
	}
	if err == nil {
		delete(r.seen, s.ID)
		failpoint.Hit(failpoint.NoticeMade)
		r.logStep(ctx, d, p)
	}
	return more || p.Ended != 0, err
}

// next decides what a subscription sends next, once no notice is under way. write reports whether the
// step is to be written.
func (r *Runner) next(ctx context.Context, d store.DueSubscription, p *store.SubscriptionStep) (write, more bool, err error) {
	s := &p.Subscription
	switch {
	case s.State == store.SubscriptionDeleted:
	case s.Asked == store.AskedTest:
		return true, false, r.test(d, p)
	case s.Asked > 0 && d.Subscription.Open == 0:
		s.Asked = 0
		return true, false, r.again(d, p)
	case s.Asked > 0: // the next step has that notice
	case s.State != store.SubscriptionActive, s.Failed != 0 && s.Next.After(d.Now):
	case s.Failed != 0 && d.Subscription.Open == 0:
		return true, false, r.again(d, p)
	case s.Failed != 0: // the next step has that notice
	default:
		return r.tell(ctx, d, p)
	}
	return false, false, nil
}

// pause pauses a subscription that can make no notice. No call resumes callbacks, so these only wait,
// as long as their connection is there.
func (r *Runner) pause(ctx context.Context, d store.DueSubscription, why string) error {
	p := store.SubscriptionStep{Subscription: d.Subscription.Clone()}
	s := &p.Subscription
	s.UpdatedBy, s.Asked, s.LastError = "", 0, why
	if s.Open != 0 {
		if done, err := r.end(ctx, d, &p); err != nil || !done {
			return err
		}
	}
	switch {
	case s.State != store.SubscriptionActive:
	case s.Callbacks && !d.Connection.ID.IsZero() && d.Connection.Deleted.IsZero():
		s.Next, s.OnlyThen = d.Now.Add(maxBackoff), true
	default:
		s.State, s.PauseCause, s.Note = store.SubscriptionPaused, store.SubscriptionPausedByFailures, why
		s.Next, s.OnlyThen = time.Time{}, false
	}
	_, err := r.cfg.Store.StepSubscription(ctx, p)
	return err
}

// end notes how the notice under way has ended. done is false if its job was ruled on first, or was to be
// canceled, because its subscription is deleted.
func (r *Runner) end(ctx context.Context, d store.DueSubscription, p *store.SubscriptionStep) (done bool, err error) {
	s := &p.Subscription
	p.Ended = job.Canceled // its job was removed
	if d.Job != nil {
		p.Ended = d.Job.State
	}
	if !p.Ended.Terminal() {
		return false, r.endJob(ctx, d)
	}
	if p.Ended == job.Succeeded {
		s.Delivered = d.Now
		if s.Failed == 0 || s.Failed == d.Subscription.Open {
			s.Failed, s.Failures, s.Failing, s.LastError = 0, 0, time.Time{}, ""
			s.Next, s.OnlyThen = time.Time{}, false
		}
		return true, nil
	}
	s.LastError = lastError(d.Job, p.Ended)
	if s.Failed != 0 && s.Failed != d.Subscription.Open || s.State == store.SubscriptionDeleted || d.Open.Kind == store.NoticeTest {
		return true, nil // a notice that failed goes first again; no one waits for a test
	}
	if s.Failed == 0 {
		s.Failed, s.Failing = d.Subscription.Open, d.Now
	}
	s.Failures++
	s.Next, s.OnlyThen = d.Now.Add(backoff(s.Failures)), true
	gone := d.Job != nil && d.Job.LastError != nil && d.Job.LastError.HTTPStatus == statusGone
	if s.State == store.SubscriptionActive && !s.Callbacks && (gone || d.Now.Sub(s.Failing) >= GiveUp) {
		s.State, s.PauseCause, s.Note = store.SubscriptionPaused, store.SubscriptionPausedByFailures, s.LastError
		s.Next, s.OnlyThen = time.Time{}, false
	}
	return true, nil
}

// endJob rules on the job of a notice under way that waits for a person, or cancels it if its subscription is
// deleted. One that has gone on since it was found due is left alone.
func (r *Runner) endJob(ctx context.Context, d store.DueSubscription) error {
	switch {
	case d.Job.State == job.NeedsResolution: // no person is asked about a notice
		return r.decide(ctx, d, job.Resolved{
			Ruling: job.RuleNotSent, Actor: store.NoticeActor(d.Subscription.ID), Note: "a notice is sent again",
		})
	case d.Subscription.State == store.SubscriptionDeleted && d.Job.CancelAsked.IsZero():
		return r.decide(ctx, d, job.CancelAsked{})
	default:
		return nil
	}
}

const (
	// GiveUp is how long a notice fails until its subscription pauses itself; callbacks never do.
	GiveUp = 72 * time.Hour
	// statusGone is the answer of a receiver that wants no more notices.
	statusGone = 410
)

// backoff is the wait before the next job of a notice.
func backoff(failures int64) time.Duration {
	return min(maxBackoff, time.Minute*time.Duration(math.Exp2(float64(min(failures-1, 10)))))
}

func lastError(j *job.Snapshot, state job.State) string {
	if j != nil && j.LastError != nil && j.LastError.Message != "" {
		return j.LastError.Message
	}
	return "the notice's job ended as " + state.String()
}

// decide decides about the job of the notice under way.
func (r *Runner) decide(ctx context.Context, d store.DueSubscription, e job.Evidence) error {
	decision, err := job.Decide(d.Job.View(job.Traits{Class: d.Job.Class}, 0), e)
	if err != nil {
		return fmt.Errorf("decide about a notice: %w", err)
	}
	out, err := r.cfg.Store.Apply(ctx, []store.Change{{
		Job: d.Job.ID, Version: d.Job.Version, Decision: decision, Actor: store.NoticeActor(d.Subscription.ID),
	}})
	if err == nil {
		err = out[0].Err
	}
	return err
}

// again sends a notice once more, the one that is asked for or that failed. One whose job is no
// longer kept is reported again, from its events.
func (r *Runner) again(d store.DueSubscription, p *store.SubscriptionStep) error {
	s := &p.Subscription
	s.Next, s.OnlyThen = time.Time{}, false
	if d.Job == nil {
		if d.Open.Number != 0 && d.Open.Number == s.Failed {
			s.Position, s.Memory = d.Open.After, nil
			s.Next = d.Now // holds and a silence are reported again without an event
		}
		s.Failed, s.Failures, s.Failing = 0, 0, time.Time{}
		return nil
	}
	l, err := letterOf(d.Job)
	if err != nil {
		return err
	}
	p.Again = d.Open.Number
	return r.carry(d, p, l)
}

// carry adds the job of a notice to a step.
func (r *Runner) carry(d store.DueSubscription, p *store.SubscriptionStep, l letter) error {
	spec, err := SpecOf(d.Subscription)
	if err != nil {
		return err
	}
	if d.Connection.ID.IsZero() || !d.Connection.Deleted.IsZero() {
		return &CannotCarryError{"the connection was deleted"}
	}
	content, err := payload(d.Connection, spec.Stated.GetTarget(), l)
	if err != nil {
		return err
	}
	p.Job, err = newJob(r.cfg.Connectors, d.Connection, r.cfg.NewID(), content)
	return err
}

func (r *Runner) logStep(ctx context.Context, d store.DueSubscription, p store.SubscriptionStep) {
	s := p.Subscription
	switch {
	case s.State == store.SubscriptionPaused && d.Subscription.State == store.SubscriptionActive:
		r.cfg.Log.ErrorContext(ctx, "a subscription paused itself: a notice could not be delivered", "subscription", s.Key,
			"project", s.Project, "notice", s.Failed, "failing_since", s.Failing)
	case s.Failed != 0 && d.Subscription.Failed == 0:
		r.cfg.Log.WarnContext(ctx, "a notice was not delivered; it is sent again", "subscription", s.Key, "project", s.Project, "notice", s.Failed)
	}
}
