package server

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/fireonce/fireonce/clients/go/fireoncev1"
	"github.com/fireonce/fireonce/clients/go/subscriptionsv1"
	"github.com/fireonce/fireonce/clients/go/subscriptionsv1/subscriptionsv1connect"
	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/store"
)

// Rules of this file: a change is written under the revision that was read. The server that makes notices
// writes too, so a change is decided again until it is written, and the etag, which notices leave
// alone, is what a client has judged by.

// subscriptionService answers fireonce.subscriptions.v1.SubscriptionService.
type subscriptionService struct {
	subscriptionsv1connect.UnimplementedSubscriptionServiceHandler
	*Server
}

// subscriptionNamed is a request with a oneof of a subscription's names.
type subscriptionNamed interface {
	GetSubscriptionId() string
	GetIdempotencyKey() string
}

// subjectSubscription is what a request is about.
var subjectSubscription = names{"subscription_id", "idempotency_key"}

func subscriptionNotFound(ref store.Ref) *fault {
	return subjectSubscription.notFound(fireoncev1.ErrorReason_ERROR_REASON_SUBSCRIPTION_NOT_FOUND, "subscription", ref)
}

// readSubscription reads the subscription that a request is about. Those for callbacks are no caller's.
func (s *subscriptionService) readSubscription(ctx context.Context, of subscriptionNamed) (store.Subscription, error) {
	ref, err := subjectSubscription.ref(ctx, of.GetSubscriptionId(), of.GetIdempotencyKey())
	if err != nil {
		return store.Subscription{}, err
	}
	found, err := s.store.Subscription(ctx, ref)
	if err == nil && found.Callbacks {
		err = store.ErrNotFound
	}
	return found, notFoundAs(wrapped("read the subscription", err), subscriptionNotFound(ref))
}

// wrapped adds what failed; nil stays nil.
func wrapped(what string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", what, err)
}

// subscriptionChange is a change of one subscription that a client asks for.
type subscriptionChange struct {
	etag string
	// from are the states that it can be changed in.
	from []store.SubscriptionState
	// inPlace reports whether a subscription has the change already.
	inPlace func(store.Subscription) (bool, error)
	// change makes the change in a copy, which is written.
	change func(ctx context.Context, to *store.Subscription) error
	// what is the line in the log.
	what string
}

// livingSubscriptions are the states of subscriptions that are not for good.
var livingSubscriptions = []store.SubscriptionState{store.SubscriptionActive, store.SubscriptionPaused}

// change makes a change of the subscription that a request is about.
func (s *subscriptionService) change(ctx context.Context, of subscriptionNamed, r subscriptionChange) (store.Subscription, error) {
	return decideAgain(func() (store.Subscription, error) {
		was, err := s.readSubscription(ctx, of)
		if err != nil {
			return was, err
		}
		if done, err := r.inPlace(was); err != nil || done {
			return was, err
		}
		if err := checkEtag(r.etag, "subscription", was.ID, was.Version); err != nil {
			return was, err
		}
		if !slices.Contains(r.from, was.State) {
			return was, subscriptionState(was, "it is "+subscriptionStateName(was))
		}
		to := was.Clone()
		to.UpdatedBy = callerOf(ctx).actor
		if err := r.change(ctx, &to); err != nil {
			return was, err
		}
		after, err := s.store.ChangeSubscription(ctx, to)
		switch {
		case errors.Is(err, store.ErrStale):
			return was, store.ErrStale
		case err != nil:
			return was, notFoundAs(fmt.Errorf("change the subscription: %w", err), subscriptionNotFound(store.Ref{ID: was.ID}))
		}
		s.logSubscription(ctx, r.what, after)
		return after, nil
	}, func(was store.Subscription) error { return etagMismatch("subscription", was.ID, was.Version) })
}

// changeSubscription makes a change, and converts the result.
func (s *subscriptionService) changeSubscription(
	ctx context.Context, of subscriptionNamed, r subscriptionChange,
) (*subscriptionsv1.Subscription, error) {
	after, err := s.change(ctx, of, r)
	if err != nil {
		return nil, err
	}
	return s.subscriptionWire(ctx, after)
}

// subscriptionState is the error for a change that a subscription's state does not allow.
func subscriptionState(s store.Subscription, why string) *fault {
	return refuse(fireoncev1.ErrorReason_ERROR_REASON_SUBSCRIPTION_STATE,
		fmt.Sprintf("not possible with subscription %s: %s", s.ID, why), "subscription_id", s.ID.String(), "state", subscriptionStateName(s))
}

// subscriptionStateName is the contract's name of a state, without its prefix.
func subscriptionStateName(s store.Subscription) string {
	return subscriptionsv1.SubscriptionState(s.State).String()[len("SUBSCRIPTION_STATE_"):]
}

func (s *subscriptionService) logSubscription(ctx context.Context, what string, of store.Subscription) {
	s.log.InfoContext(ctx, what, "request_id", requestID(ctx), "by", callerOf(ctx).actor, "project", of.Project,
		"subscription", of.Key, "subscription_id", of.ID.String())
}

// PauseSubscription implements the RPC.
func (s *subscriptionService) PauseSubscription(
	ctx context.Context, req *subscriptionsv1.PauseSubscriptionRequest,
) (*subscriptionsv1.PauseSubscriptionResponse, error) {
	out, err := s.changeSubscription(ctx, req, subscriptionChange{
		etag: req.GetEtag(), from: livingSubscriptions, what: "a subscription was paused",
		inPlace: func(was store.Subscription) (bool, error) {
			return was.State == store.SubscriptionPaused && (req.GetNote() == "" || req.GetNote() == was.Note), nil
		},
		change: func(_ context.Context, to *store.Subscription) error {
			if to.Note = req.GetNote(); to.State == store.SubscriptionActive {
				to.State, to.PauseCause = store.SubscriptionPaused, store.SubscriptionPausedByPerson
			}
			return nil
		},
	})
	return &subscriptionsv1.PauseSubscriptionResponse{Subscription: out}, err
}

// ResumeSubscription implements the RPC.
func (s *subscriptionService) ResumeSubscription(
	ctx context.Context, req *subscriptionsv1.ResumeSubscriptionRequest,
) (*subscriptionsv1.ResumeSubscriptionResponse, error) {
	out, err := s.changeSubscription(ctx, req, subscriptionChange{
		etag: req.GetEtag(), from: livingSubscriptions, what: "a subscription was resumed",
		inPlace: func(was store.Subscription) (bool, error) {
			return was.State == store.SubscriptionActive && !req.GetSkipToNow(), nil
		},
		change: func(ctx context.Context, to *store.Subscription) error {
			to.State, to.PauseCause, to.Note = store.SubscriptionActive, 0, ""
			// What failed is due immediately, and its three days begin again.
			if to.Next, to.OnlyThen = to.PausedAt, to.Failed != 0; to.Failed != 0 {
				meta, err := s.store.Meta(ctx)
				if err != nil {
					return fmt.Errorf("ask for the time: %w", err)
				}
				to.Failing = meta.Now
			}
			if !req.GetSkipToNow() {
				return nil
			}
			log, err := logEnd(ctx, s.store, to.Project)
			to.Position, to.Incarnation, to.Memory = log.End, log.Incarnation, nil
			to.Failed, to.Failures, to.Failing, to.LastError = 0, 0, time.Time{}, ""
			to.Next, to.OnlyThen = to.Created, false // a wait for a silence begins again
			return err
		},
	})
	return &subscriptionsv1.ResumeSubscriptionResponse{Subscription: out}, err
}

// DeleteSubscription implements the RPC.
func (s *subscriptionService) DeleteSubscription(
	ctx context.Context, req *subscriptionsv1.DeleteSubscriptionRequest,
) (*subscriptionsv1.DeleteSubscriptionResponse, error) {
	after, err := s.change(ctx, req, s.deleting(req.GetEtag()))
	if err != nil {
		return nil, err
	}
	if err := s.cancelNotice(ctx, after); err != nil {
		return nil, err
	}
	out, err := s.subscriptionWire(ctx, after)
	return &subscriptionsv1.DeleteSubscriptionResponse{Subscription: out}, err
}

func (*subscriptionService) deleting(etag string) subscriptionChange {
	return subscriptionChange{
		etag: etag, from: livingSubscriptions, what: "a subscription was deleted",
		inPlace: func(was store.Subscription) (bool, error) { return was.State == store.SubscriptionDeleted, nil },
		change: func(_ context.Context, to *store.Subscription) error {
			to.State, to.PauseCause, to.Note = store.SubscriptionDeleted, 0, ""
			return nil
		},
	}
}

// cancelNotice cancels the notice of a deleted subscription that is not sent yet.
func (s *Server) cancelNotice(ctx context.Context, of store.Subscription) error {
	if of.Open == 0 {
		return nil
	}
	_, err := decideAgain(func() (none struct{}, err error) {
		snap, err := s.store.Job(ctx, store.Ref{Project: job.NoticeProject(of.Project), ID: of.OpenJob})
		if err != nil {
			return none, ignoring(err, store.ErrNotFound)
		}
		d, err := job.Decide(snap.View(job.Traits{Class: snap.Class}, 0), job.CancelAsked{})
		if _, ended := errors.AsType[*job.StateError](err); ended {
			return none, nil
		}
		if err != nil || d.Action == job.ActNothing {
			return none, err
		}
		out, err := s.store.Apply(ctx, []store.Change{{Job: snap.ID, Version: snap.Version, Decision: d, Actor: callerOf(ctx).actor}})
		if err == nil {
			err = out[0].Err
		}
		return none, err
	}, func(struct{}) error { return nil }) // it goes on, and ends by itself
	return wrapped("cancel the notice", err)
}
