package connector

import (
	"context"
	"syscall"
)

// Control is a net.Dialer.ControlContext that obeys the policy, for the clients of
// protocols that are no sends: it fails with *EgressError.
func (e *Egress) Control(ctx context.Context, network, address string, c syscall.RawConn) error {
	return e.control(ctx, network, address, c)
}
