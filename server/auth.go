package server

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"github.com/fireonce/fireonce/clients/go/fireoncev1"
	"github.com/fireonce/fireonce/internal/apikey"
	"github.com/fireonce/fireonce/internal/cache"
	"github.com/fireonce/fireonce/internal/tracing"
	"github.com/fireonce/fireonce/store"
)

// Rules of this file: the key alone identifies the caller and its project. A key is read from the
// store again after a few seconds, so a revoked key is refused within that time. The comparison
// of a key takes the same time whatever is wrong with it; only the holder of the right one learns
// that it has expired or was revoked.

// authenticator identifies callers by their keys, and bounds how often they call.
type authenticator struct {
	// required is set when a call without a key is refused.
	required bool
	// keySum and nextKeySum are the hashes of the operator's keys, where it has them.
	keySum, nextKeySum [sha256.Size]byte
	hasKey, hasNextKey bool
	keys               *keyCache
	quotas             Quotas
	quotaLog           *quotaLog
	// calls are by project, failed sign-ins by peer.
	calls, failed *buckets
	now           func() time.Time
	log           *slog.Logger
	causes        *causes
}

func newAuthenticator(cfg Config, quotaLog *quotaLog, causes *causes) *authenticator {
	return &authenticator{
		required: cfg.APIKey != "" || cfg.NextAPIKey != "" || cfg.RequireKey,
		keySum:   sha256.Sum256([]byte(cfg.APIKey)), nextKeySum: sha256.Sum256([]byte(cfg.NextAPIKey)),
		hasKey: cfg.APIKey != "", hasNextKey: cfg.NextAPIKey != "",
		keys:   newKeyCache(cfg.Store, cfg.Now, cfg.Limits.DefaultDeadline),
		quotas: cfg.Quotas, quotaLog: quotaLog, calls: newBuckets(cfg.Now), failed: newBuckets(cfg.Now),
		now: cfg.Now, log: cfg.Log, causes: causes,
	}
}

// admitted returns the caller of a procedure, and refuses a caller that may not call it.
func (a *authenticator) admitted(ctx context.Context, authorization, procedure string) (caller, *fault) {
	who, refused := a.identify(ctx, authorization)
	if refused == nil {
		refused = a.admit(who, procedure)
	}
	return who, refused
}

// admit refuses a caller that may not call a procedure, or not now.
func (a *authenticator) admit(who caller, procedure string) *fault {
	if refused := permit(who, procedure); refused != nil {
		return refused
	}
	return a.callQuota(who.project)
}

// identify returns the caller that a key belongs to, or the operator where no key is required.
func (a *authenticator) identify(ctx context.Context, authorization string) (caller, *fault) {
	scheme, text, _ := strings.Cut(authorization, " ")
	text = strings.TrimSpace(text)
	bearer := strings.EqualFold(scheme, "Bearer")
	sum := sha256.Sum256([]byte(text))
	operator := subtle.ConstantTimeCompare(sum[:], a.keySum[:]) == 1 && a.hasKey
	next := subtle.ConstantTimeCompare(sum[:], a.nextKeySum[:]) == 1 && a.hasNextKey
	switch {
	case (operator || next) && bearer:
		return caller{project: DefaultProject, actor: "api:key", all: true}, nil
	case bearer && apikey.Looks(text):
		return a.holder(ctx, text)
	case !a.required:
		return caller{project: DefaultProject, actor: "api", all: true}, nil
	}
	if text != "" {
		a.signInFailed(ctx)
	}
	return caller{}, unknownKey()
}

func unknownKey() *fault {
	return refuse(fireoncev1.ErrorReason_ERROR_REASON_CREDENTIAL_INVALID,
		"no API key, or one that is not known; send it as Authorization: Bearer KEY")
}

// holder returns the caller that a key of the store belongs to.
func (a *authenticator) holder(ctx context.Context, text string) (caller, *fault) {
	key, err := apikey.Parse(text)
	if err != nil {
		a.signInFailed(ctx)
		return caller{}, unknownKey()
	}
	if refused := a.checkSignInRate(ctx, key.ID); refused != nil {
		return caller{}, refused
	}
	k, err := a.keys.get(ctx, key.ID)
	if err != nil {
		return caller{}, a.keyUnread(ctx, err)
	}
	var want [sha256.Size]byte // of no key
	copy(want[:], k.Hash)
	got := key.Hash()
	switch {
	case subtle.ConstantTimeCompare(got[:], want[:]) != 1 || !k.found:
		a.signInFailed(ctx)
		return caller{}, unknownKey()
	case !k.Live():
		return caller{}, keyOver(k.ID)
	}
	a.keys.used(context.WithoutCancel(ctx), k)
	return caller{project: k.Project, actor: actorOf(k.APIKey), scopes: k.Scopes, key: k.ID}, nil
}

// actorOf names a key in events, logs and connections. A name may be used again when its key has
// ended; the id distinguishes the two.
func actorOf(k store.APIKey) string {
	if k.Name == "" {
		return "api:" + k.ID
	}
	return "api:" + k.Name + "/" + k.ID
}

// keyIsOver reports whether the actor is a key of the store that was revoked or has expired. It reads
// the key itself, since what goes on without a call has time for that.
func (s *Server) keyIsOver(ctx context.Context, actor string) (bool, error) {
	id := actor[strings.LastIndexAny(actor, ":/")+1:] // see actorOf
	if !apikey.IsID(id) {
		return false, nil // the operator's key, or none
	}
	k, err := s.cfg.Store.APIKey(ctx, id)
	if errors.Is(err, store.ErrNotFound) {
		return true, nil
	}
	if err != nil {
		return false, fmt.Errorf("read the key that acts: %w", err)
	}
	return !k.Live(), nil
}

// stillAdmitted refuses a caller whose key has ended since its call began. A key that cannot be
// read now ends no call.
func (a *authenticator) stillAdmitted(ctx context.Context) error {
	who := callerOf(ctx)
	if who.key == "" {
		return nil
	}
	if k, err := a.keys.get(ctx, who.key); err == nil && !(k.found && k.Live()) {
		return keyOver(who.key)
	}
	return nil
}

// keyOver refuses a caller whose key was right before.
func keyOver(id string) *fault {
	return refuse(fireoncev1.ErrorReason_ERROR_REASON_CREDENTIAL_INVALID,
		"this API key was revoked, or its time is over; the operator gives another one", "api_key_id", id)
}

// keyUnread answers for a key that could not be looked up.
func (a *authenticator) keyUnread(ctx context.Context, err error) *fault {
	if errors.Is(err, cache.ErrFull) {
		return refuse(fireoncev1.ErrorReason_ERROR_REASON_QUOTA_EXCEEDED, "too many API keys are tried at once")
	}
	if ctx.Err() == nil && a.causes.logs(err, a.now()) {
		a.log.ErrorContext(ctx, "an API key could not be looked up", "request_id", requestID(ctx), "cause", err.Error())
	}
	return refuse(fireoncev1.ErrorReason_ERROR_REASON_STORE_UNAVAILABLE, "the store cannot be reached; repeat the call")
}

// authenticated passes the calls whose caller is known and may make them.
func (s *Server) authenticated(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx := r.Context()
		who, refused := s.sessions.caller(r)
		if refused == nil {
			refused = s.auth.admit(who, r.URL.Path)
		}
		if refused != nil {
			if refused.reason == fireoncev1.ErrorReason_ERROR_REASON_CREDENTIAL_INVALID {
				w.Header().Set("WWW-Authenticate", realm)
			}
			s.turnAway(w, r.WithContext(ctx), refused)
			return
		}
		// The trace of a known caller is continued.
		ctx = tracing.Extract(context.WithValue(ctx, keyCaller, who), r.Header["Traceparent"], r.Header["Tracestate"])
		next.ServeHTTP(w, r.WithContext(ctx))
	})
}

// realm is the header WWW-Authenticate of a refusal.
const realm = `Bearer realm="fireonce"`
