package server

import (
	"context"
	"errors"
	"fmt"

	"github.com/fireonce/fireonce/clients/go/fireoncev1"
	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/store"
)

// Rules of this file: what changes one object of any kind reads it, decides, and writes for the
// version that was read; if the object has changed between, all of that is repeated. A change that
// is in place already succeeds before the etag is compared. The etag is compared before every other
// check, because the client judged by another state.

// decideAgain calls change until it fails with something else than store.ErrStale, or has done so
// store.MaxDecisions times; then stale has the error for the object as it was read last.
func decideAgain[T any](change func() (T, error), stale func(T) error) (T, error) {
	var last T
	for range store.MaxDecisions {
		var err error
		if last, err = change(); !errors.Is(err, store.ErrStale) {
			return last, err
		}
	}
	return last, stale(last)
}

// checkEtag refuses a change of an object whose version is not the one that the client has read.
// Without an etag it passes.
func checkEtag(etag, kind string, id job.ID, version int64) error {
	if etag == "" || etag == etagOf(id, version) {
		return nil
	}
	return etagMismatch(kind, id, version)
}

// etagMismatch is the error for an object that has changed since the client, or this server, read it.
func etagMismatch(kind string, id job.ID, version int64) *fault {
	etag := etagOf(id, version)
	return refuse(fireoncev1.ErrorReason_ERROR_REASON_ETAG_MISMATCH,
		fmt.Sprintf("%s %s has changed since it was read; its etag is now %s", kind, id, etag),
		kind+"_id", id.String(), "etag", etag)
}

// Rules of the log of changes: every change of a connection, of a schedule and of an API key is one line of
// INFO that names the actor, the object and the parts that changed. Values are not
// logged: they may be secret. The last actor is stored with the object, too.

// logConnectionChange logs the creation or a change of a connection, with its actor.
func (s *Server) logConnectionChange(ctx context.Context, what string, c store.Connection, more ...any) {
	s.log.InfoContext(ctx, what, append([]any{
		"request_id", requestID(ctx), "by", callerOf(ctx).actor, "connection", c.ID.String(), "project", c.Project,
		"connector", c.Connector, "version", c.Version,
	}, more...)...)
}

// logScheduleChange logs the creation, a change or a firing of a schedule, with its actor.
func (s *Server) logScheduleChange(ctx context.Context, what string, of store.Schedule, more ...any) {
	s.log.InfoContext(ctx, what, append([]any{
		"request_id", requestID(ctx), "by", callerOf(ctx).actor, "schedule_id", of.ID.String(), "project", of.Project,
		"state", stateName(of), "version", of.Version,
	}, more...)...)
}

// changedParts names what a change touches.
func changedParts(c store.ConnectionChange) (parts []string) {
	for _, part := range []struct {
		name    string
		touched bool
	}{
		{"display_name", c.DisplayName != nil}, {"labels", c.Labels != nil}, {"settings", c.Target != nil}, {"limits", c.Limits != nil},
		{"account_identity", c.Identity != nil}, {"credential", c.Credential != nil}, {"paused", c.Pause != nil},
		{"resumed", c.Resume}, {"deleted", c.Delete},
	} {
		if part.touched {
			parts = append(parts, part.name)
		}
	}
	return parts
}

// logKeyChange logs the creation or the end of an API key, with its actor.
func (s *Server) logKeyChange(ctx context.Context, what string, k store.APIKey) {
	s.log.InfoContext(ctx, what, "request_id", requestID(ctx), "by", callerOf(ctx).actor,
		"api_key", k.ID, "project", k.Project, "name", k.Name, "scopes", k.Scopes)
}
