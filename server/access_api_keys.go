package server

import (
	"context"
	"errors"
	"fmt"
	"slices"

	fireoncev1 "github.com/fireonce/fireonce/gen/fireonce/v1"
	"github.com/fireonce/fireonce/gen/fireonce/v1/fireoncev1connect"
	"github.com/fireonce/fireonce/internal/apikey"
	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/internal/seal"
	"github.com/fireonce/fireonce/internal/submit"
	"github.com/fireonce/fireonce/store"
)

// Rules of this file: who has a key makes no right that he does not have, and learns
// nothing of another project. A key is in the answer to who made it, and in no log.

// resealPage is how many credentials a RotateSealingKey looks at when it does not say:
// one transaction, and what of their seals is in memory.
const resealPage = 100

// accessService answers fireonce.v1.AccessService.
type accessService struct {
	fireoncev1connect.UnimplementedAccessServiceHandler
	*Server
}

func operatorRequired(what string) *fault {
	return refuse(fireoncev1.ErrorReason_ERROR_REASON_OPERATOR_REQUIRED, what+" only with the operator's key")
}

// CreateApiKey implements the RPC.
func (s *accessService) CreateApiKey(ctx context.Context, req *fireoncev1.CreateApiKeyRequest) (*fireoncev1.CreateApiKeyResponse, error) {
	if err := noUnknown(req); err != nil {
		return nil, err
	}
	n, err := newKeyFor(callerOf(ctx), req)
	if err != nil {
		return nil, err
	}
	key, err := apikey.New()
	if err != nil {
		return nil, err
	}
	hash := key.Hash()
	n.ID, n.Hash, n.Most = key.ID, hash[:], s.quotas.limit(n.Project, QuotaAPIKeys)
	made, err := s.store.CreateAPIKey(ctx, n)
	if errors.Is(err, store.ErrUnconfirmed) {
		return nil, refuse(fireoncev1.ErrorReason_ERROR_REASON_STORE_UNAVAILABLE,
			"the store did not confirm the write: if there is a key "+n.ID+" now, nobody has it; revoke it, and make another one", "api_key_id", n.ID)
	}
	if errors.Is(err, store.ErrNameTaken) {
		return nil, refuse(fireoncev1.ErrorReason_ERROR_REASON_API_KEY_NAME_TAKEN,
			"a live API key of the project is called "+n.Name+"; revoke it, or take another name", "name", n.Name)
	}
	if err := s.quotaFault(err, n.Project, QuotaAPIKeys); err != nil {
		return nil, notFoundAs(fmt.Errorf("store the API key: %w", err),
			refuse(fireoncev1.ErrorReason_ERROR_REASON_PROJECT_NOT_FOUND, "no project "+n.Project, "project_id", n.Project))
	}
	s.noted(ctx, "an API key was made", made)
	return &fireoncev1.CreateApiKeyResponse{ApiKey: apiKeyToWire(made), Secret: key.Reveal()}, nil
}

// newKeyFor says what a key is to be, if its maker may make it.
func newKeyFor(who caller, req *fireoncev1.CreateApiKeyRequest) (store.NewAPIKey, error) {
	n := store.NewAPIKey{
		Project: req.GetProjectId(), NewProject: req.GetCreateProject(), Name: req.GetName(),
		Lifetime: submit.Duration(req.GetLifetime()),
	}
	if n.Project == "" {
		n.Project = who.project
	}
	if !who.all && n.Project != who.project {
		return n, operatorRequired("keys of another project are made")
	}
	if !who.all && n.NewProject {
		return n, operatorRequired("projects are made")
	}
	for _, scope := range Scopes() { // in one order, whatever the client's is
		if !slices.Contains(req.GetScopes(), scope) {
			continue
		}
		if !who.has(scope) {
			return n, refuse(fireoncev1.ErrorReason_ERROR_REASON_SCOPE_MISSING,
				"this API key cannot give the scope "+scope+", which it lacks", "scope", scope)
		}
		n.Scopes = append(n.Scopes, scope)
	}
	return n, nil
}

// ListApiKeys implements the RPC.
func (s *accessService) ListApiKeys(ctx context.Context, req *fireoncev1.ListApiKeysRequest) (*fireoncev1.ListApiKeysResponse, error) {
	who, limit := callerOf(ctx), pageSize(req.GetPageSize())
	project := req.GetProjectId()
	switch {
	case who.all: // empty: every project's
	case project == "":
		project = who.project
	case project != who.project:
		return nil, operatorRequired("keys of another project are listed")
	}
	owner, err := s.pageOwner(project, &fireoncev1.ListApiKeysRequest{})
	if err != nil {
		return nil, err
	}
	after, err := parsePage(keyPages, owner, req.GetPageToken())
	if err != nil {
		return nil, err
	}
	keys, err := s.store.ListAPIKeys(ctx, project, keyAfter(after.id), limit)
	if err != nil {
		return nil, fmt.Errorf("list API keys: %w", err)
	}
	out := &fireoncev1.ListApiKeysResponse{}
	for _, k := range keys {
		out.ApiKeys = append(out.ApiKeys, apiKeyToWire(k))
	}
	if len(keys) == limit {
		out.NextPageToken = place{kind: keyPages, owner: owner, id: keyPlace(keys[limit-1].ID)}.String()
	}
	return out, nil
}

// keyPlace puts the id of an API key, 16 letters, where a token has the 16 bytes of
// another one. keyAfter takes it out; the zero place is before the first.
func keyPlace(id string) (out job.ID) {
	copy(out[:], id)
	return out
}

func keyAfter(at job.ID) string {
	if at.IsZero() {
		return ""
	}
	return string(at[:])
}

// RevokeApiKey implements the RPC.
func (s *accessService) RevokeApiKey(ctx context.Context, req *fireoncev1.RevokeApiKeyRequest) (*fireoncev1.RevokeApiKeyResponse, error) {
	who, id := callerOf(ctx), req.GetApiKeyId()
	missing := refuse(fireoncev1.ErrorReason_ERROR_REASON_API_KEY_NOT_FOUND, "no API key "+id, "api_key_id", id)
	k, err := s.store.APIKey(ctx, id) // its project never changes
	if err != nil {
		return nil, notFoundAs(fmt.Errorf("read the API key: %w", err), missing)
	}
	if !who.all && k.Project != who.project {
		return nil, missing
	}
	if k, err = s.store.RevokeAPIKey(ctx, id); err != nil {
		return nil, notFoundAs(fmt.Errorf("revoke the API key: %w", err), missing)
	}
	s.keys.forget(id)
	s.noted(ctx, "an API key was revoked", k)
	return &fireoncev1.RevokeApiKeyResponse{ApiKey: apiKeyToWire(k)}, nil
}

func apiKeyToWire(k store.APIKey) *fireoncev1.ApiKey {
	return &fireoncev1.ApiKey{
		ApiKeyId: k.ID, ProjectId: k.Project, Name: k.Name, Scopes: k.Scopes,
		CreateTime: timeToWire(k.Created), ExpireTime: timeToWire(k.Expires),
		LastUseTime: timeToWire(k.LastUsed), RevokeTime: timeToWire(k.Revoked), Active: k.Live(),
	}
}

// ListSealingKeys implements the RPC.
func (s *accessService) ListSealingKeys(ctx context.Context, _ *fireoncev1.ListSealingKeysRequest) (*fireoncev1.ListSealingKeysResponse, error) {
	if !callerOf(ctx).all {
		return nil, operatorRequired("sealing keys, which all projects share, are listed")
	}
	use, err := s.store.KeyUse(ctx)
	if err != nil {
		return nil, fmt.Errorf("read the use of the keys: %w", err)
	}
	out := &fireoncev1.ListSealingKeysResponse{NextSealingKeyId: s.cfg.Vault.NextKeyID()}
	add := func(id string, role fireoncev1.SealingKeyRole) {
		k := &fireoncev1.SealingKey{SealingKeyId: id, Role: role}
		if at := slices.IndexFunc(use, func(u store.KeyUse) bool { return u.KeyID == id }); at >= 0 {
			k.CredentialCount, k.LoginCount = use[at].Credentials, use[at].Logins
			use = slices.Delete(use, at, at+1)
		}
		out.SealingKeys = append(out.SealingKeys, k)
	}
	for i, id := range s.cfg.Vault.KeyIDs() {
		role := fireoncev1.SealingKeyRole_SEALING_KEY_ROLE_OPENS
		if i == 0 {
			role = fireoncev1.SealingKeyRole_SEALING_KEY_ROLE_SEALS
		}
		add(id, role)
	}
	var others []string // that came in since the start, or that there are not
	for _, u := range use {
		others = append(others, u.KeyID)
	}
	missing := s.cfg.Vault.Missing(others)
	for _, id := range others {
		if !slices.Contains(missing, id) {
			add(id, fireoncev1.SealingKeyRole_SEALING_KEY_ROLE_OPENS)
		}
	}
	for _, id := range missing {
		add(id, fireoncev1.SealingKeyRole_SEALING_KEY_ROLE_MISSING)
	}
	return out, nil
}

// RotateSealingKey implements the RPC.
func (s *accessService) RotateSealingKey(ctx context.Context, req *fireoncev1.RotateSealingKeyRequest) (*fireoncev1.RotateSealingKeyResponse, error) {
	if !callerOf(ctx).all {
		return nil, operatorRequired("credentials of all projects are sealed anew")
	}
	key := s.cfg.Vault.KeyID()
	if next := s.cfg.Vault.NextKeyID(); next != "" {
		return nil, refuse(fireoncev1.ErrorReason_ERROR_REASON_SEALING_KEY_OUTDATED,
			fmt.Sprintf("this server seals with key %s until it is restarted; its key file names %s first", key, next),
			"sealing_key_id", key, "next_sealing_key_id", next)
	}
	owner := s.owner("", []byte("seal"), []byte(key))
	after, err := parsePage(sealPages, owner, req.GetPageToken())
	if err != nil {
		return nil, err
	}
	limit := resealPage
	if req.GetPageSize() > 0 {
		limit = pageSize(req.GetPageSize())
	}
	page, err := s.store.CredentialsOfOthers(ctx, key, store.SealedPlace{Connection: after.id, Version: int(after.at)}, limit)
	if err != nil {
		return nil, fmt.Errorf("read credentials of other keys: %w", err)
	}
	out, err := s.reseal(ctx, page)
	if err != nil {
		return nil, err
	}
	if len(page) == limit {
		last := page[limit-1]
		out.NextPageToken = place{kind: sealPages, owner: owner, id: last.Connection, at: int64(last.Version)}.String()
	}
	if len(page) > 0 {
		s.log.InfoContext(ctx, "credentials were sealed anew", "request_id", requestID(ctx), "by", callerOf(ctx).actor, "key", key,
			"sealed", out.GetResealedCount(), "changed", out.GetChangedCount(), "failed", len(out.GetFailedConnectionIds()))
	}
	return out, nil
}

// reseal seals one page with the first key. What does not open fails no other.
func (s *accessService) reseal(ctx context.Context, page []store.SealedAt) (*fireoncev1.RotateSealingKeyResponse, error) {
	out := &fireoncev1.RotateSealingKeyResponse{SealingKeyId: s.cfg.Vault.KeyID()}
	items := make([]store.Reseal, 0, len(page))
	for _, old := range page {
		data, err := s.cfg.Vault.Rewrap(old.Data, old.KeyID, seal.Binding(old.Connection, old.Version, old.For))
		if err != nil {
			out.FailedConnectionIds = append(out.FailedConnectionIds, idToWire(old.Connection))
			continue
		}
		items = append(items, store.Reseal{Old: old, KeyID: out.GetSealingKeyId(), Data: data})
	}
	if len(items) == 0 {
		return out, nil
	}
	done, err := s.store.Reseal(ctx, items)
	if err != nil {
		return nil, fmt.Errorf("reseal: %w", err)
	}
	for _, ok := range done {
		if ok {
			out.ResealedCount++
		} else {
			out.ChangedCount++
		}
	}
	return out, nil
}
