package server

import (
	"context"

	"github.com/fireonce/fireonce/clients/go/fireoncev1"
	"github.com/fireonce/fireonce/store"
)

// DeleteConnection implements the RPC.
func (s *connectionService) DeleteConnection(ctx context.Context, req *fireoncev1.DeleteConnectionRequest) (*fireoncev1.DeleteConnectionResponse, error) {
	_, err := s.changeStored(ctx, connectionChange{
		of: req, etag: req.GetEtag(),
		inPlace: alreadyIf(func(c store.Connection) bool { return !c.Deleted.IsZero() }),
		change:  fixedChange(store.ConnectionChange{Delete: true}),
	})
	return &fireoncev1.DeleteConnectionResponse{}, err
}
