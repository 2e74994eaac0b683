package postgres

import (
	"github.com/fireonce/fireonce/gen/pgdb"
	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/store"
)

func sealedFor(project, connector string, settings []byte, identity string) store.SealedFor {
	return store.SealedFor{Project: project, Connector: connector, Settings: toBytes(settings), AccountIdentity: identity}
}

func setSealParams(id job.ID, version int, s store.Seal) pgdb.SetSealParams {
	return pgdb.SetSealParams{ConnectionID: fromID(id), Version: int64(version), KeyID: s.KeyID, Data: fromBytes(s.Data)}
}
