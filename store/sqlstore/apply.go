package sqlstore

import (
	"context"
	"time"

	"github.com/fireonce/fireonce/gen/shareddb"
	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/store"
	"github.com/fireonce/fireonce/store/column"
	"github.com/fireonce/fireonce/store/rules"
)

// SetContent replaces parts of the request of a job that is locked. If the job's new effect key
// is taken, it writes nothing.
func (t Tx) SetContent(ctx context.Context, id job.ID, c store.Content) error {
	snaps, err := t.Snapshots(ctx, []job.ID{id}, true)
	if err != nil || len(snaps) == 0 {
		return orNotFound(err)
	}
	if c.OwnEffectKey != "" {
		took, err := t.Q.TakeEffectKey(ctx, shareddb.TakeEffectKeyParams{Digest: c.EffectKey[:], JobID: id})
		if err == nil && took == 0 {
			err = store.ErrEffectKeyTaken
		}
		if err != nil {
			return err
		}
	}
	was, is := snaps[0].Spec, c.Apply(snaps[0].Spec)
	if c.Payload != nil {
		if err := t.Q.RemoveRecipients(ctx, id); err != nil {
			return named("recipients", err)
		}
		if err := t.AddRecipients(ctx, is, c.Recipients); err != nil {
			return err
		}
		if err := t.CountUse(ctx, is.Project, 0, int64(len(is.Payload)-len(was.Payload))); err != nil {
			return err
		}
	}
	return named("content", t.Q.SetContent(ctx, shareddb.SetContentParams{
		Payload: filled(is.Payload), Labels: column.Labels(store.EncodeLabels(is.Labels)), OwnEffectKey: is.OwnEffectKey, Delivery: is.Delivery,
		Retry: is.Retry.Encode(), AttemptTimeout: column.MicrosOf(is.Retry.AttemptTimeout), TimeZone: is.TimeZone, ID: id,
	}))
}

// AddCallback stores by which connection the end of a job is reported, if by any.
func (t Tx) AddCallback(ctx context.Context, id, connection job.ID) error {
	if connection.IsZero() {
		return nil
	}
	return named("callback", t.Q.AddCallback(ctx, shareddb.AddCallbackParams{JobID: id, ConnectionID: connection}))
}

// AddRecipients stores the recipients of a job's payload.
func (t Tx) AddRecipients(ctx context.Context, s job.Spec, recipients []string) error {
	for _, who := range recipients {
		if err := t.Q.AddRecipient(ctx, shareddb.AddRecipientParams{JobID: s.ID, Project: s.Project, Recipient: who}); err != nil {
			return named("recipients", err)
		}
	}
	return nil
}

// AddRuling stores a person's ruling on a job, and returns its row.
func (t Tx) AddRuling(ctx context.Context, id job.ID, r job.Resolution) (int64, error) {
	row, err := t.Q.InsertResolution(ctx, shareddb.InsertResolutionParams{JobID: id, Ruling: r.Ruling, Actor: r.Actor, Note: r.Note, Now: t.Now})
	return row, named("resolution", err)
}

// Hold holds a hold key of a connection.
func (t Tx) Hold(ctx context.Context, connection job.ID, key string, h job.HoldUntil) error {
	if h.Auth == 0 {
		return named("hold", t.Q.HoldRate(ctx, shareddb.HoldRateParams{
			Until: rules.Until(h, t.Now), Reason: h.Reason, ConnectionID: connection, HoldKey: key,
		}))
	}
	return named("hold", t.Q.HoldAuth(ctx, shareddb.HoldAuthParams{
		Now: t.Now, Reason: h.Reason, Cause: int16(h.Auth), ConnectionID: connection, HoldKey: key, CredentialVersion: int64(h.CredentialVersion),
	}))
}

// Settle returns the statement that stores a result of an earlier attempt.
func Settle(id job.ID, s job.Settled, now time.Time) shareddb.SettleAttemptParams {
	return shareddb.SettleAttemptParams{
		Result: s.Result, Kind: s.Kind, Message: s.Message, HttpStatus: int64(s.HTTPStatus), BytesWritten: s.BytesWritten,
		PeerEnded: s.PeerEnded, Handle: s.Handle, Answer: s.Answer.Encode(), Now: now, JobID: id, Number: int64(s.Attempt),
	}
}

// Observed returns the statement that stores a look.
func Observed(id job.ID, o *job.Observation) shareddb.InsertObservationParams {
	return shareddb.InsertObservationParams{
		JobID: id, Attempt: int64(o.Attempt), Verdict: o.Verdict, ExternalID: o.ExternalID, ExternalUrl: o.ExternalURL,
		Handle: o.Handle, Detail: o.Detail, BegunAt: job.Micros(o.BegunAt), EndedAt: job.Micros(o.EndedAt),
	}
}
