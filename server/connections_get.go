package server

import (
	"context"
	"fmt"

	fireoncev1 "github.com/fireonce/fireonce/gen/fireonce/v1"
)

// GetConnection implements the RPC.
func (s *connectionService) GetConnection(ctx context.Context, req *fireoncev1.GetConnectionRequest) (*fireoncev1.GetConnectionResponse, error) {
	ref, err := connectionRef(ctx, req)
	if err != nil {
		return nil, err
	}
	conn, err := s.store.Connection(ctx, ref)
	if err != nil {
		return nil, notFoundAs(fmt.Errorf("read the connection: %w", err), connectionNotFound(ref))
	}
	out, err := s.connectionWire(conn)
	return &fireoncev1.GetConnectionResponse{Connection: out}, err
}

// ListConnections implements the RPC.
func (s *connectionService) ListConnections(ctx context.Context, req *fireoncev1.ListConnectionsRequest) (*fireoncev1.ListConnectionsResponse, error) {
	project := callerOf(ctx).project
	owner, err := s.tokens.pageOwner(project, &fireoncev1.ListConnectionsRequest{
		Filter: req.GetFilter(),
	})
	if err != nil {
		return nil, err
	}
	after, err := parsePage(connPages, owner, req.GetPageToken())
	if err != nil {
		return nil, err
	}
	q, err := connectionsFromWire(project, req.GetFilter())
	if err != nil {
		return nil, err
	}
	q.CredentialRequired = s.credentialRequired
	q.After, q.Deleted, q.Limit = after.id, req.GetFilter().GetShowDeleted(), pageSize(req.GetPageSize())
	page, err := s.store.ListConnections(ctx, q)
	if err != nil {
		return nil, fmt.Errorf("list connections: %w", err)
	}
	out := &fireoncev1.ListConnectionsResponse{}
	for _, c := range page.Connections {
		wire, err := s.connectionWire(c)
		if err != nil {
			return nil, err
		}
		out.Connections = append(out.Connections, wire)
	}
	if !page.Next.IsZero() {
		out.NextPageToken = token{kind: connPages, owner: owner, id: page.Next}.String()
	}
	return out, nil
}

// ListConnectors implements the RPC.
func (s *connectionService) ListConnectors(context.Context, *fireoncev1.ListConnectorsRequest) (*fireoncev1.ListConnectorsResponse, error) {
	out := &fireoncev1.ListConnectorsResponse{}
	for _, name := range s.cfg.Connectors.Names() {
		code, _ := s.cfg.Connectors.Get(name)
		out.Connectors = append(out.Connectors, connectorToWire(code.Describe()))
	}
	return out, nil
}
