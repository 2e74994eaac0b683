package engine

import (
	"bytes"
	"cmp"
	"context"
	"runtime/debug"
	"time"

	"github.com/fireonce/fireonce/internal/connector"
	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/internal/tracing"
	"github.com/fireonce/fireonce/store"
)

// Rules of this file: before the arm nothing that has an effect is sent, and every failure
// is provably unsent (job.Deferred).

// prepare makes everything ready for the arm, or returns why the job cannot be armed now.
func (a *attempt) prepare(ctx context.Context) *job.Deferred {
	step := a.work.Step(tracing.Prepare)
	refused := a.prepareOrRefuse(ctx)
	var kind job.FailureKind
	if refused != nil {
		kind = refused.Kind
	}
	step.End(kind)
	return refused
}

func (a *attempt) prepareOrRefuse(ctx context.Context) (refused *job.Deferred) {
	l := a.leased
	defer func() {
		if p := recover(); p != nil {
			a.e.Log.Error("panic while preparing", logged(&l.Snapshot, &l.Connection), "panic", p, "stack", string(debug.Stack()))
			refused = &job.Deferred{Kind: job.FailTransient, Message: "internal error while preparing; this try sent nothing"}
		}
	}()
	lease := ctx
	ctx, cancel := context.WithTimeout(ctx, openTimeout)
	defer cancel()

	to, refused := a.e.credentials.open(ctx, l)
	if refused != nil {
		return refused
	}
	if a.first == nil && !l.Spec.ReplyTo.IsZero() && l.ReplyTo == "" {
		return &job.Deferred{
			Kind: job.FailPermanent,
			Message: "the job that this one replies to has no known id at the platform: it was taken as sent " +
				"without a proof, or the platform gave none; this try sent nothing",
		}
	}
	if refused = a.freeze(ctx, &to); refused != nil {
		return refused
	}
	if refused = a.readWatermark(ctx, &to); refused != nil {
		return refused
	}
	if content := contentOf(l, a.account, a.prepared); content != "" {
		if holder := a.e.contents.reserve(content, l.ID); holder != l.ID {
			a.behind = holder
			return &job.Deferred{Kind: job.FailHeld}
		}
		a.content = content
	}
	if a.present, refused = a.lookForContent(lease, &to); refused != nil || a.present != nil {
		return refused
	}
	if d := ownOpenTime(l, a.prepared); d > 0 {
		ctx, cancel = context.WithTimeout(lease, d)
		defer cancel()
		if a.probe != nil {
			a.holdProbe(ctx, a.probe.breaker, d+storeTimeout)
		}
	}
	session, err := to.connector.Open(ctx, to.opening)
	if err != nil {
		a.down = isDown(err)
		return refusal(err, job.FailTransient, to.opening.Credential)
	}
	a.session = session
	if refused = a.learnAccount(); refused != nil {
		a.closeSession()
	}
	return refused
}

// freeze has the connector make the request. A replay sends its first attempt's bytes.
func (a *attempt) freeze(ctx context.Context, to *target) *job.Deferred {
	l, before := a.leased, a.first
	if before == nil {
		var refused *job.Deferred
		if before, refused = a.roundBefore(ctx); refused != nil {
			return refused
		}
	}
	key := a.e.effectKey(l)
	prepared, err := to.connector.Prepare(connector.Request{
		EffectKey: key, Settings: l.Connection.Settings, PayloadKind: l.PayloadKind, Payload: l.Payload,
		ReplyTo: l.ReplyTo, Due: l.ScheduleTime,
		Credential: func() (connector.Credential, error) { return to.opening.Credential, nil },
	})
	if err != nil {
		return refusal(err, job.FailPermanent, to.opening.Credential)
	}
	if a.first != nil {
		prepared.Frozen = a.first.Frozen
	} else if refused := sameAsBefore(l, before, prepared); refused != nil {
		return refused
	}
	if to.capability.Class != job.Observable {
		prepared.Gate = nil // the target was found to dedupe
	}
	to.opening.Prepared = prepared
	a.ready = ready{
		key: key, prepared: prepared, traits: to.capability.Traits, account: to.capability.Identity,
		credentialVersion: to.opening.Credential.Version,
	}
	return nil
}

// ownOpenTime returns how long a session may take to open where what is left of the time
// for preparing is not enough; 0: it is. Uploads take longer, and a look for the job's content
// has used some of that time.
func ownOpenTime(l *store.Leased, p connector.Prepared) time.Duration {
	if p.OpenTime <= openTimeout && l.SkipIfPresent == 0 {
		return 0
	}
	return max(openTimeout, min(p.OpenTime, job.MaxOpenTimeout))
}

// readWatermark reads the watermark of an OBSERVABLE job, and whose it is.
func (a *attempt) readWatermark(ctx context.Context, to *target) *job.Deferred {
	if a.traits.Class != job.Observable {
		return nil
	}
	observer, ok := to.connector.(connector.Observer)
	if !ok {
		return &job.Deferred{Kind: job.FailPermanent, Message: "this connector cannot look at its platform"}
	}
	var err error
	if a.watermark, err = observer.Watermark(ctx, to.opening); err != nil {
		a.down = isDown(err)
		return refusal(err, job.FailTransient, to.opening.Credential)
	}
	if i, ok := to.connector.(connector.Identifier); ok && a.account == "" {
		a.account = i.AccountOf(a.watermark)
		return a.sameAccount()
	}
	return nil
}

// learnAccount takes the account over that the platform named as the session was opened.
func (a *attempt) learnAccount() *job.Deferred {
	owned, ok := a.session.(connector.Owned)
	if !ok || a.account != "" {
		return nil
	}
	a.account = owned.Account()
	return a.sameAccount()
}

// sameAccount refuses to send with a credential that turned out to be another account's.
// Where the connection's account is known, it must be that one. A replay is harmless only
// at the account of the attempt before. The platform named a.account.
func (a *attempt) sameAccount() *job.Deferred {
	known := a.leased.Connection.AccountIdentity
	if a.first != nil && a.first.AccountIdentity != "" {
		known = a.first.AccountIdentity
	}
	if known == "" || a.account == "" || known == a.account {
		return nil
	}
	return &job.Deferred{
		Kind: job.FailAuth, Auth: job.AuthOtherAccount, CredentialVersion: a.credentialVersion,
		Message: "the credential leads to another account than this connection's: reconnect the account " + known,
	}
}

// effectKey returns the key of the job's round: that of its first attempt, also where the
// namespace has changed since.
func (c *Config) effectKey(l *store.Leased) string {
	return cmp.Or(l.RoundKey, l.EffectKey(c.Namespace))
}

// roundBefore returns the first attempt of an OBSERVABLE job's round; nil: the round has
// none yet, or its bytes do not matter.
func (a *attempt) roundBefore(ctx context.Context) (*job.Attempt, *job.Deferred) {
	l := a.leased
	if l.Class != job.Observable || l.Attempt == 0 || l.RoundArmed.IsZero() {
		return nil, nil
	}
	attempts, err := a.e.Store.Attempts(ctx, store.Ref{ID: l.ID}, 0, job.MaxAttempts)
	if err != nil || len(attempts) == 0 {
		return nil, &job.Deferred{Kind: job.FailHeld, RetryAfter: time.Second, Message: "the attempts could not be read"}
	}
	first := roundFirst(attempts, l.Round)
	return &first, nil
}

// sameAsBefore refuses to arm an OBSERVABLE job with other bytes than its round's
// first attempt: looks search for those, and would not see what is sent now. A reply
// has others when what it replies to turned out to be another object.
func sameAsBefore(l *store.Leased, before *job.Attempt, p connector.Prepared) *job.Deferred {
	if before == nil || l.Class != job.Observable || bytes.Equal(before.Frozen, p.Frozen) {
		return nil
	}
	return &job.Deferred{
		Kind: job.FailPermanent,
		Message: "the request is another one than at the first try: the object that it replies to has changed, or how " +
			"this server writes it; this try sent nothing, submit a new job",
	}
}
