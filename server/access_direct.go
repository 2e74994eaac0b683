package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/fireonce/fireonce/clients/go/adminv1"
	"github.com/fireonce/fireonce/clients/go/adminv1/adminv1connect"
	"github.com/fireonce/fireonce/internal/contract"
)

// direct answers AccessService in the same process, to the operator.
type direct struct{ service accessService }

// Direct serves AccessService on an open store, under the same rules as behind a port. Its caller
// holds the database itself, and so acts as the operator. Without a vault only API keys are
// served. Errors that a client would see are *connect.Error, all others are returned as they are.
func Direct(ctx context.Context, s Store, v Vault) (adminv1connect.AccessServiceClient, error) {
	meta, err := s.Meta(ctx)
	if err != nil {
		return nil, fmt.Errorf("read the store's identity: %w", err)
	}
	rules, err := contract.Rules()
	if err != nil {
		return nil, err
	}
	return &direct{accessService{Server: &Server{
		auth: &authenticator{}, cfg: Config{Store: s, Vault: v, Now: time.Now}, store: newScanStore(s), connections: newConnectionCache(s, 0), log: slog.New(slog.DiscardHandler), tokens: tokens{store: meta.StoreID}, rules: rules,
		quotas: Quotas{all: map[Quota]int64{QuotaAPIKeys: 0}}, // a bound on callers, not on the holder of the database
	}}}, nil
}

// directly makes one call.
func directly[Req, Res any](ctx context.Context, d *direct, req Req, call func(context.Context, Req) (Res, error)) (Res, error) {
	var none Res
	if err := d.service.checkRules(req); err != nil {
		return none, err
	}
	ctx = context.WithValue(ctx, keyCaller, caller{project: DefaultProject, actor: "database", all: true})
	res, err := call(ctx, req)
	if f := new(fault); errors.As(err, &f) {
		return none, f.wire()
	}
	return res, err
}

// CreateApiKey implements adminv1connect.AccessServiceClient.
func (d *direct) CreateApiKey(ctx context.Context, req *adminv1.CreateApiKeyRequest) (*adminv1.CreateApiKeyResponse, error) {
	return directly(ctx, d, req, d.service.CreateApiKey)
}

// ListApiKeys implements adminv1connect.AccessServiceClient.
func (d *direct) ListApiKeys(ctx context.Context, req *adminv1.ListApiKeysRequest) (*adminv1.ListApiKeysResponse, error) {
	return directly(ctx, d, req, d.service.ListApiKeys)
}

// RevokeApiKey implements adminv1connect.AccessServiceClient.
func (d *direct) RevokeApiKey(ctx context.Context, req *adminv1.RevokeApiKeyRequest) (*adminv1.RevokeApiKeyResponse, error) {
	return directly(ctx, d, req, d.service.RevokeApiKey)
}

// ListSealingKeys implements adminv1connect.AccessServiceClient.
func (d *direct) ListSealingKeys(ctx context.Context, req *adminv1.ListSealingKeysRequest) (*adminv1.ListSealingKeysResponse, error) {
	return directly(ctx, d, req, d.service.ListSealingKeys)
}

// RotateSealingKey implements adminv1connect.AccessServiceClient.
func (d *direct) RotateSealingKey(ctx context.Context, req *adminv1.RotateSealingKeyRequest) (*adminv1.RotateSealingKeyResponse, error) {
	return directly(ctx, d, req, d.service.RotateSealingKey)
}

// EraseProject implements adminv1connect.AccessServiceClient.
func (d *direct) EraseProject(ctx context.Context, req *adminv1.EraseProjectRequest) (*adminv1.EraseProjectResponse, error) {
	return directly(ctx, d, req, d.service.EraseProject)
}

// ListProjects implements adminv1connect.AccessServiceClient.
func (d *direct) ListProjects(ctx context.Context, req *adminv1.ListProjectsRequest) (*adminv1.ListProjectsResponse, error) {
	return directly(ctx, d, req, d.service.ListProjects)
}
