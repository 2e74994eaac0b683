package sqlite

import (
	"strings"
	"time"

	"github.com/fireonce/fireonce/gen/sqlitedb"
	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/store"
)

func toSealedAt(r sqlitedb.CredentialsOfOthersRow) store.SealedAt {
	return store.SealedAt{
		SealedPlace: store.SealedPlace{Connection: toID(r.ConnectionID), Version: int(r.Version)},
		For:         sealedFor(r.Project, r.Connector, r.Settings, r.AccountIdentity),
		KeyID:       r.KeyID, Data: toBytes(r.Data),
	}
}

func sealedFor(project, connector string, settings []byte, identity string) store.SealedFor {
	return store.SealedFor{Project: project, Connector: connector, Settings: toBytes(settings), AccountIdentity: identity}
}

func setSealParams(id job.ID, version int, s store.Seal) sqlitedb.SetSealParams {
	return sqlitedb.SetSealParams{ConnectionID: fromID(id), Version: int64(version), KeyID: s.KeyID, Data: fromBytes(s.Data)}
}

func resealParams(r store.Reseal) sqlitedb.ResealParams {
	return sqlitedb.ResealParams{
		NewKeyID: r.KeyID, NewData: fromBytes(r.Data), ConnectionID: fromID(r.Old.Connection),
		Version: int64(r.Old.Version), KeyID: r.Old.KeyID, Data: fromBytes(r.Old.Data),
	}
}

func insertAPIKeyParams(k store.NewAPIKey, now int64) sqlitedb.InsertAPIKeyParams {
	p := sqlitedb.InsertAPIKeyParams{
		ID: k.ID, Project: k.Project, Name: k.Name, Hash: fromBytes(k.Hash), Scopes: strings.Join(k.Scopes, " "), Now: now,
	}
	if k.Lifetime > 0 {
		p.ExpiresAt = someMicros(now + micros(k.Lifetime))
	}
	return p
}

func toAPIKey(k sqlitedb.ApiKey, now int64) store.APIKey {
	return store.APIKey{
		ID: k.ID, Project: k.Project, Name: k.Name, Hash: toBytes(k.Hash), Scopes: strings.Fields(k.Scopes),
		Created: fromMicros(k.CreatedAt), Expires: fromNullMicros(k.ExpiresAt),
		LastUsed: fromNullMicros(k.LastUsedAt), Revoked: fromNullMicros(k.RevokedAt), Now: fromMicros(now),
	}
}

func touchAPIKeyParams(id string, gap time.Duration, now int64) sqlitedb.TouchAPIKeyParams {
	return sqlitedb.TouchAPIKeyParams{ID: id, Now: someMicros(now), Before: someMicros(now - micros(gap))}
}
