package server

import (
	"context"
	"fmt"

	"github.com/fireonce/fireonce/clients/go/connectionsv1"
	"github.com/fireonce/fireonce/store"
)

// GetConnection implements the RPC.
func (s *connectionService) GetConnection(ctx context.Context, req *connectionsv1.GetConnectionRequest) (*connectionsv1.GetConnectionResponse, error) {
	conn, err := s.readConnection(ctx, req)
	if err != nil {
		return nil, err
	}
	out, err := s.connectionWire(ctx, conn)
	return &connectionsv1.GetConnectionResponse{Connection: out}, err
}

// readConnection reads the connection that a request is about.
func (s *connectionService) readConnection(ctx context.Context, req connectionNamed) (store.Connection, error) {
	ref, err := subjectConnection.ref(ctx, req.GetConnectionId(), req.GetIdempotencyKey())
	if err != nil {
		return store.Connection{}, err
	}
	conn, err := s.store.Connection(ctx, ref)
	if err != nil {
		return conn, notFoundAs(fmt.Errorf("read the connection: %w", err), connectionNotFound(ref))
	}
	return conn, nil
}

// usableConnection reads the connection that a request is about, and refuses one that was deleted.
func (s *connectionService) usableConnection(ctx context.Context, req connectionNamed) (store.Connection, error) {
	conn, err := s.readConnection(ctx, req)
	if err == nil && !conn.Deleted.IsZero() {
		err = disabled(&conn, "was deleted")
	}
	return conn, err
}

// ListConnections implements the RPC.
func (s *connectionService) ListConnections(ctx context.Context, req *connectionsv1.ListConnectionsRequest) (*connectionsv1.ListConnectionsResponse, error) {
	project := callerOf(ctx).project
	p, err := s.tokens.readPage(connPages, project, withoutPage(req), req.GetPageToken())
	if err != nil {
		return nil, err
	}
	q, err := connectionsFromWire(project, req.GetFilter())
	if err != nil {
		return nil, err
	}
	q.CredentialRequired = s.credentialRequired
	q.After, q.Deleted, q.Limit = p.after.id, req.GetFilter().GetShowDeleted(), pageSize(req.GetPageSize())
	page, err := s.store.ListConnections(ctx, q)
	if err != nil {
		return nil, fmt.Errorf("list connections: %w", err)
	}
	wires, err := s.connectionWires(ctx, page.Connections)
	return &connectionsv1.ListConnectionsResponse{Connections: wires, NextPageToken: p.nextToken(page.Next, 0)}, err
}

// ListConnectors implements the RPC.
func (s *connectionService) ListConnectors(context.Context, *connectionsv1.ListConnectorsRequest) (*connectionsv1.ListConnectorsResponse, error) {
	out := &connectionsv1.ListConnectorsResponse{}
	for _, name := range s.cfg.Connectors.Names() {
		code, _ := s.cfg.Connectors.Get(name)
		out.Connectors = append(out.Connectors, connectorToWire(code.Describe()))
	}
	return out, nil
}
