package postgres

import (
	"strings"
	"time"

	"github.com/fireonce/fireonce/gen/pgdb"
	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/store"
)

func toSealedAt(r pgdb.CredentialsOfOthersRow) store.SealedAt {
	return store.SealedAt{
		SealedPlace: store.SealedPlace{Connection: toID(r.ConnectionID), Version: int(r.Version)},
		For:         sealedFor(r.Project, r.Connector, r.Settings, r.AccountIdentity),
		KeyID:       r.KeyID, Data: toBytes(r.Data),
	}
}

func sealedFor(project, connector string, settings []byte, identity string) store.SealedFor {
	return store.SealedFor{Project: project, Connector: connector, Settings: toBytes(settings), AccountIdentity: identity}
}

func setSealParams(id job.ID, version int, s store.Seal) pgdb.SetSealParams {
	return pgdb.SetSealParams{ConnectionID: fromID(id), Version: int64(version), KeyID: s.KeyID, Data: fromBytes(s.Data)}
}

func resealParams(r store.Reseal) pgdb.ResealParams {
	return pgdb.ResealParams{
		NewKeyID: r.KeyID, NewData: fromBytes(r.Data), ConnectionID: fromID(r.Old.Connection),
		Version: int64(r.Old.Version), KeyID: r.Old.KeyID, Data: fromBytes(r.Old.Data),
	}
}

func insertAPIKeyParams(k store.NewAPIKey, now time.Time) pgdb.InsertAPIKeyParams {
	p := pgdb.InsertAPIKeyParams{
		ID: k.ID, Project: k.Project, Name: k.Name, Hash: fromBytes(k.Hash), Scopes: strings.Join(k.Scopes, " "), Now: now,
	}
	if k.Lifetime > 0 {
		p.ExpiresAt = someTime(soon(now, k.Lifetime))
	}
	return p
}

func toAPIKey(k pgdb.ApiKey, now time.Time) store.APIKey {
	return store.APIKey{
		ID: k.ID, Project: k.Project, Name: k.Name, Hash: toBytes(k.Hash), Scopes: strings.Fields(k.Scopes),
		Created: toTime(&k.CreatedAt), Expires: toTime(k.ExpiresAt),
		LastUsed: toTime(k.LastUsedAt), Revoked: toTime(k.RevokedAt), Now: now,
	}
}

func touchAPIKeyParams(id string, gap time.Duration, now time.Time) pgdb.TouchAPIKeyParams {
	return pgdb.TouchAPIKeyParams{ID: id, Now: now, Before: now.Add(-gap)}
}
