package server

import (
	"context"
	"fmt"

	"github.com/fireonce/fireonce/clients/go/adminv1"
	"github.com/fireonce/fireonce/store"
)

// serverService answers fireonce.admin.v1.ServerService.
type serverService struct{ *Server }

// ListServers implements the RPC.
func (s *serverService) ListServers(ctx context.Context, _ *adminv1.ListServersRequest) (*adminv1.ListServersResponse, error) {
	if !callerOf(ctx).all {
		return nil, operatorRequired("servers, which all projects share, are listed")
	}
	servers, err := s.store.Servers(ctx)
	if err != nil {
		return nil, fmt.Errorf("list servers: %w", err)
	}
	return &adminv1.ListServersResponse{Servers: convertAll(servers, s.serverToWire)}, nil
}

func (s *serverService) serverToWire(one store.Server) *adminv1.Server {
	out := &adminv1.Server{
		Worker: one.Worker, Answering: one.Worker == s.cfg.Worker, Version: one.Version, Host: one.Host, ProcessId: int32(one.PID),
		StartTime: timeToWire(one.Started), ClaimedCount: int32(one.Claimed), SendingCount: int32(one.Sending),
	}
	switch one.State {
	case store.ServerLive:
		out.State = adminv1.ServerState_SERVER_STATE_LIVE
	case store.ServerDraining:
		out.State = adminv1.ServerState_SERVER_STATE_DRAINING
	case store.ServerGone:
		out.State = adminv1.ServerState_SERVER_STATE_GONE
		out.LastSeenTime, out.TakeoverTime = timeToWire(one.Seen), timeToWire(one.Takeover)
	}
	return out
}
