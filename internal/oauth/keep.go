package oauth

import (
	"context"
	"errors"
	"fmt"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/fireonce/fireonce/clients/go/connectionsv1"
	"github.com/fireonce/fireonce/internal/connector"
	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/internal/seal"
	"github.com/fireonce/fireonce/internal/sleep"
	"github.com/fireonce/fireonce/internal/vault"
	"github.com/fireonce/fireonce/store"
)

// keep stores new tokens as the credential's next version.
func (r *Renewer) keep(ctx context.Context, conn store.Connection, old connector.Credential, owner job.ID, got Token) (connector.Credential, error) {
	var pb connectionsv1.Credential
	if err := proto.Unmarshal(old.Data, &pb); err != nil {
		return connector.Credential{}, wait(restLeast, "the credential could not be read")
	}
	got.into(pb.GetOauth2())
	data, err := proto.MarshalOptions{Deterministic: true}.Marshal(&pb)
	if err != nil {
		return connector.Credential{}, wait(restLeast, "the credential could not be written")
	}
	cred := connector.Credential{Version: old.Version + 1, Data: data}
	for rest := storePause; ; rest = min(2*rest, storePauseMost) {
		stored, err := r.store(ctx, conn, cred, got.Expires)
		switch {
		case err == nil && stored:
			r.end(ctx, conn, owner, 0, false)
			r.Log.Info("tokens renewed", "connection", conn.ID.String(), "credential_version", cred.Version)
			return cred, nil
		case err == nil:
			// Another credential has replaced it: that one counts.
			return connector.Credential{}, wait(storeRest, "the credential was changed")
		case ctx.Err() != nil:
			r.Log.Error("shut down before new tokens were stored; the account may have to be reconnected",
				"connection", conn.ID.String(), "err", err)
			return connector.Credential{}, wait(storeRest, "the login could not be stored")
		}
		r.Log.Warn("new tokens are not stored yet", "connection", conn.ID.String(), "err", err)
		sleep.For(ctx, rest)
		// The old refresh token must not be used meanwhile.
		_, _ = r.begin(ctx, conn, old.Version, owner, 0)
	}
}

// store writes the next version. It reports false if another writer has taken that version.
func (r *Renewer) store(ctx context.Context, conn store.Connection, cred connector.Credential, expires time.Time) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, storeTime)
	defer cancel()
	now, err := r.Store.Connection(ctx, store.Ref{Project: conn.Project, ID: conn.ID})
	if errors.Is(err, store.ErrNotFound) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("read the connection: %w", err)
	}
	mark := r.Vault.Fingerprint(cred.Data, conn.ID)
	switch {
	case now.CredentialVersion == cred.Version && now.CredentialFingerprint == mark:
		return true, nil // an earlier write that was not confirmed
	case now.CredentialVersion != cred.Version-1 || !now.Deleted.IsZero():
		return false, nil
	}
	// The present connection gets the tokens only if the old ones were sealed for it.
	if _, err := r.present(ctx, now); errors.Is(err, vault.ErrSealed) {
		r.Log.Error("new tokens are given up: the connection was changed in the database", "connection", conn.ID.String(), "err", err)
		return false, nil
	} else if err != nil {
		return false, err
	}
	sealed, err := seal.Credential(r.Vault, now, cred.Version, cred.Data)
	if err != nil {
		return false, err
	}
	sealed.Expires, sealed.Renews = expires, true
	_, err = r.Store.ChangeConnection(ctx, store.ConnectionChange{
		Project: conn.Project, ID: conn.ID, Version: now.Version, Credential: sealed,
	})
	if err != nil {
		return false, fmt.Errorf("store the tokens: %w", err)
	}
	return true, nil
}

// into puts a platform's tokens into the contract's message. A refresh token that the platform did
// not replace stays.
func (t Token) into(pb *connectionsv1.OAuth2Token) {
	pb.AccessToken, pb.IssueTime, pb.ExpireTime = t.Access, timestamppb.New(t.Issued), nil
	if t.Refresh != "" {
		pb.RefreshToken = t.Refresh
	}
	if !t.Expires.IsZero() {
		pb.ExpireTime = timestamppb.New(t.Expires)
	}
}
