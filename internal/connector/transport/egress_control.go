package transport

import (
	"context"
	"errors"
	"log/slog"
	"syscall"
)

// LoggingTo returns the same policy; what it denies to names is logged, because only the
// operator may know which of them there are.
func (e *Egress) LoggingTo(log *slog.Logger) *Egress {
	logging := *e
	logging.log = log
	return &logging
}

// LogDenied writes down that a name's address was denied.
func (e *Egress) LogDenied(ctx context.Context, host string, err error) {
	var denied *EgressError
	if e.log != nil && !isAddress(host) && errors.As(err, &denied) {
		e.log.InfoContext(ctx, "egress denied", "host", host, "cause", denied.Error())
	}
}

// Control is a net.Dialer.ControlContext that obeys the policy, for the clients of
// protocols that are no sends: it fails with *EgressError.
func (e *Egress) Control(ctx context.Context, network, address string, c syscall.RawConn) error {
	return e.control(ctx, network, address, c)
}
