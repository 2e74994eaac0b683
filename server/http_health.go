package server

import (
	"context"
	"fmt"
	"sync/atomic"

	"connectrpc.com/connect"
	"connectrpc.com/grpchealth"
)

// health answers gRPC health checks: serving, until Shutdown.
type health struct{ stopping atomic.Bool }

func newHealth() *health { return &health{} }

func (h *health) stop() { h.stopping.Store(true) }

// Check implements grpchealth.Checker.
func (h *health) Check(_ context.Context, req *grpchealth.CheckRequest) (*grpchealth.CheckResponse, error) {
	known := req.Service == "" || req.Service == grpchealth.HealthV1ServiceName
	for _, name := range services {
		known = known || req.Service == name
	}
	switch {
	case !known:
		return nil, connect.NewError(connect.CodeNotFound, fmt.Errorf("no service %q", req.Service))
	case h.stopping.Load():
		return &grpchealth.CheckResponse{Status: grpchealth.StatusNotServing}, nil
	default:
		return &grpchealth.CheckResponse{Status: grpchealth.StatusServing}, nil
	}
}
