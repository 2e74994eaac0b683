package server

import (
	"context"

	"github.com/fireonce/fireonce/clients/go/connectionsv1"
	"github.com/fireonce/fireonce/store"
)

// DeleteConnection implements the RPC.
func (s *connectionService) DeleteConnection(ctx context.Context, req *connectionsv1.DeleteConnectionRequest) (*connectionsv1.DeleteConnectionResponse, error) {
	_, err := s.changeStored(ctx, connectionChange{
		of: req, etag: req.GetEtag(),
		inPlace: alreadyIf(func(c store.Connection) bool { return !c.Deleted.IsZero() }),
		change:  fixedChange(store.ConnectionChange{Delete: true}),
	})
	return &connectionsv1.DeleteConnectionResponse{}, err
}
