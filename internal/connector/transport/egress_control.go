package transport

import (
	"context"
	"errors"
	"log/slog"
)

// LoggingTo returns the same policy, which logs what it denies to names, because only
// the operator may know which names exist.
func (e *Egress) LoggingTo(log *slog.Logger) *Egress {
	logging := *e
	logging.log = log
	return &logging
}

// LogDenied logs that a name's address was denied.
func (e *Egress) LogDenied(ctx context.Context, host string, err error) {
	var denied *EgressError
	if e.log != nil && !isAddress(host) && errors.As(err, &denied) {
		e.log.InfoContext(ctx, "egress denied", "host", host, "cause", denied.Error())
	}
}
