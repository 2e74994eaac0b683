package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/fireonce/fireonce/clients/go/fireoncev1"
	"github.com/fireonce/fireonce/clients/go/fireoncev1/fireoncev1connect"
	"github.com/fireonce/fireonce/internal/contract"
)

// direct answers AccessService in the same process, to the operator.
type direct struct{ service accessService }

// Direct serves AccessService on an open store, under the same rules as behind a port. Its caller
// holds the database itself, and so acts as the operator. Without a vault only API keys are
// served. Errors that a client would see are *connect.Error, all others are returned as they are.
func Direct(ctx context.Context, s Store, v Vault) (fireoncev1connect.AccessServiceClient, error) {
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

// CreateApiKey implements fireoncev1connect.AccessServiceClient.
func (d *direct) CreateApiKey(ctx context.Context, req *fireoncev1.CreateApiKeyRequest) (*fireoncev1.CreateApiKeyResponse, error) {
	return directly(ctx, d, req, d.service.CreateApiKey)
}

// ListApiKeys implements fireoncev1connect.AccessServiceClient.
func (d *direct) ListApiKeys(ctx context.Context, req *fireoncev1.ListApiKeysRequest) (*fireoncev1.ListApiKeysResponse, error) {
	return directly(ctx, d, req, d.service.ListApiKeys)
}

// RevokeApiKey implements fireoncev1connect.AccessServiceClient.
func (d *direct) RevokeApiKey(ctx context.Context, req *fireoncev1.RevokeApiKeyRequest) (*fireoncev1.RevokeApiKeyResponse, error) {
	return directly(ctx, d, req, d.service.RevokeApiKey)
}

// ListSealingKeys implements fireoncev1connect.AccessServiceClient.
func (d *direct) ListSealingKeys(ctx context.Context, req *fireoncev1.ListSealingKeysRequest) (*fireoncev1.ListSealingKeysResponse, error) {
	return directly(ctx, d, req, d.service.ListSealingKeys)
}

// RotateSealingKey implements fireoncev1connect.AccessServiceClient.
func (d *direct) RotateSealingKey(ctx context.Context, req *fireoncev1.RotateSealingKeyRequest) (*fireoncev1.RotateSealingKeyResponse, error) {
	return directly(ctx, d, req, d.service.RotateSealingKey)
}

// EraseProject implements fireoncev1connect.AccessServiceClient.
func (d *direct) EraseProject(ctx context.Context, req *fireoncev1.EraseProjectRequest) (*fireoncev1.EraseProjectResponse, error) {
	return directly(ctx, d, req, d.service.EraseProject)
}

// ListProjects implements fireoncev1connect.AccessServiceClient.
func (d *direct) ListProjects(ctx context.Context, req *fireoncev1.ListProjectsRequest) (*fireoncev1.ListProjectsResponse, error) {
	return directly(ctx, d, req, d.service.ListProjects)
}
