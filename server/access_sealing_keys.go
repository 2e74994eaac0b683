package server

import (
	"context"
	"fmt"
	"slices"

	"github.com/fireonce/fireonce/clients/go/adminv1"
	"github.com/fireonce/fireonce/clients/go/fireoncev1"
	"github.com/fireonce/fireonce/internal/seal"
	"github.com/fireonce/fireonce/store"
)

// resealPage is how many credentials one RotateSealingKey reseals unless it sets another number: they share a
// transaction, and their seals are in memory together.
const resealPage = 100

// ListSealingKeys implements the RPC.
func (s *accessService) ListSealingKeys(ctx context.Context, _ *adminv1.ListSealingKeysRequest) (*adminv1.ListSealingKeysResponse, error) {
	if !callerOf(ctx).all {
		return nil, operatorRequired("sealing keys, which all projects share, are listed")
	}
	use, err := s.store.KeyUse(ctx)
	if err != nil {
		return nil, fmt.Errorf("read the use of the keys: %w", err)
	}
	out := &adminv1.ListSealingKeysResponse{NextSealingKeyId: s.cfg.Vault.NextKeyID()}
	add := func(id string, role adminv1.SealingKeyRole) {
		k := &adminv1.SealingKey{SealingKeyId: id, Role: role}
		if at := slices.IndexFunc(use, func(u store.KeyUse) bool { return u.KeyID == id }); at >= 0 {
			k.CredentialCount, k.LoginCount = use[at].Credentials, use[at].Logins
			use = slices.Delete(use, at, at+1)
		}
		out.SealingKeys = append(out.SealingKeys, k)
	}
	for i, id := range s.cfg.Vault.KeyIDs() {
		role := adminv1.SealingKeyRole_SEALING_KEY_ROLE_OPENS
		if i == 0 {
			role = adminv1.SealingKeyRole_SEALING_KEY_ROLE_SEALS
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
			add(id, adminv1.SealingKeyRole_SEALING_KEY_ROLE_OPENS)
		}
	}
	for _, id := range missing {
		add(id, adminv1.SealingKeyRole_SEALING_KEY_ROLE_MISSING)
	}
	return out, nil
}

// RotateSealingKey implements the RPC.
func (s *accessService) RotateSealingKey(ctx context.Context, req *adminv1.RotateSealingKeyRequest) (*adminv1.RotateSealingKeyResponse, error) {
	if !callerOf(ctx).all {
		return nil, operatorRequired("credentials of all projects are sealed anew")
	}
	key := s.cfg.Vault.KeyID()
	if next := s.cfg.Vault.NextKeyID(); next != "" {
		return nil, refuse(fireoncev1.ErrorReason_ERROR_REASON_SEALING_KEY_OUTDATED,
			fmt.Sprintf("this server seals with key %s until it is restarted; its key file names %s first", key, next),
			"sealing_key_id", key, "next_sealing_key_id", next)
	}
	p, err := readOwnedPage(sealPages, s.tokens.owner("", []byte("seal"), []byte(key)), req.GetPageToken())
	if err != nil {
		return nil, err
	}
	limit := resealPage
	if req.GetPageSize() > 0 {
		limit = pageSize(req.GetPageSize())
	}
	page, err := s.store.CredentialsOfOthers(ctx, key, store.SealedPlace{Connection: p.after.id, Version: int(p.after.at)}, limit)
	if err != nil {
		return nil, fmt.Errorf("read credentials of other keys: %w", err)
	}
	out, err := s.reseal(ctx, page)
	if err != nil {
		return nil, err
	}
	if len(page) == limit {
		out.NextPageToken = p.nextToken(page[limit-1].Connection, int64(page[limit-1].Version))
	}
	if len(page) > 0 {
		s.log.InfoContext(ctx, "credentials were sealed anew", "request_id", requestID(ctx), "by", callerOf(ctx).actor, "key", key,
			"sealed", out.GetResealedCount(), "changed", out.GetChangedCount(), "failed", len(out.GetFailedConnectionIds()))
	}
	return out, nil
}

// reseal seals one page with the first key. What does not open fails no other.
func (s *accessService) reseal(ctx context.Context, page []store.SealedAt) (*adminv1.RotateSealingKeyResponse, error) {
	out := &adminv1.RotateSealingKeyResponse{SealingKeyId: s.cfg.Vault.KeyID()}
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
