package server

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/fireonce/fireonce/clients/go/adminv1"
	"github.com/fireonce/fireonce/clients/go/adminv1/adminv1connect"
	"github.com/fireonce/fireonce/clients/go/fireoncev1"
	"github.com/fireonce/fireonce/internal/apikey"
	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/internal/submit"
	"github.com/fireonce/fireonce/store"
)

// Rules of this file: the holder of a key creates no right that it lacks, and learns nothing of
// another project. A key is in the answer to its creator, and in no log.

// accessService answers fireonce.admin.v1.AccessService.
type accessService struct {
	adminv1connect.UnimplementedAccessServiceHandler
	*Server
}

func operatorRequired(what string) *fault {
	return refuse(fireoncev1.ErrorReason_ERROR_REASON_OPERATOR_REQUIRED, what+" only with the operator's key")
}

// CreateApiKey implements the RPC.
func (s *accessService) CreateApiKey(ctx context.Context, req *adminv1.CreateApiKeyRequest) (*adminv1.CreateApiKeyResponse, error) {
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
	s.logKeyChange(ctx, "an API key was made", made)
	return &adminv1.CreateApiKeyResponse{ApiKey: apiKeyToWire(made), Secret: key.Reveal()}, nil
}

// newKeyFor returns the key that a request asks for, if its caller may create it.
func newKeyFor(who caller, req *adminv1.CreateApiKeyRequest) (store.NewAPIKey, error) {
	n := store.NewAPIKey{
		Project: cmp.Or(req.GetProjectId(), who.project), NewProject: req.GetCreateProject(), Name: req.GetName(),
		Lifetime: submit.Duration(req.GetLifetime()),
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
func (s *accessService) ListApiKeys(ctx context.Context, req *adminv1.ListApiKeysRequest) (*adminv1.ListApiKeysResponse, error) {
	who, limit := callerOf(ctx), pageSize(req.GetPageSize())
	project := req.GetProjectId()
	switch {
	case who.all: // empty: every project's
	case project == "":
		project = who.project
	case project != who.project:
		return nil, operatorRequired("keys of another project are listed")
	}
	p, err := s.tokens.readPage(keyPages, project, &adminv1.ListApiKeysRequest{}, req.GetPageToken())
	if err != nil {
		return nil, err
	}
	keys, err := s.store.ListAPIKeys(ctx, project, keyOfToken(p.after.id), limit)
	if err != nil {
		return nil, fmt.Errorf("list API keys: %w", err)
	}
	out := &adminv1.ListApiKeysResponse{ApiKeys: convertAll(keys, apiKeyToWire)}
	if len(keys) == limit {
		out.NextPageToken = p.nextToken(tokenOfKey(keys[limit-1].ID), 0)
	}
	return out, nil
}

// tokenOfKey puts the id of an API key, 16 letters, in the place of the 16 bytes of another id.
// keyOfToken takes it out; the zero token is before the first key.
func tokenOfKey(id string) (out job.ID) {
	copy(out[:], id)
	return out
}

func keyOfToken(at job.ID) string {
	if at.IsZero() {
		return ""
	}
	return string(at[:])
}

// RevokeApiKey implements the RPC.
func (s *accessService) RevokeApiKey(ctx context.Context, req *adminv1.RevokeApiKeyRequest) (*adminv1.RevokeApiKeyResponse, error) {
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
	s.auth.keys.forget(id)
	s.logKeyChange(ctx, "an API key was revoked", k)
	return &adminv1.RevokeApiKeyResponse{ApiKey: apiKeyToWire(k)}, nil
}

func apiKeyToWire(k store.APIKey) *adminv1.ApiKey {
	return &adminv1.ApiKey{
		ApiKeyId: k.ID, ProjectId: k.Project, Name: k.Name, Scopes: k.Scopes,
		CreateTime: timeToWire(k.Created), ExpireTime: timeToWire(k.Expires),
		LastUseTime: timeToWire(k.LastUsed), RevokeTime: timeToWire(k.Revoked), Active: k.Live(),
	}
}
