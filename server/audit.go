package server

import (
	"context"

	"github.com/fireonce/fireonce/store"
)

// Rules of this file: every change of a connection, of a schedule and of an API key is one line of
// INFO that names the actor, the object and the parts that changed. Values are not
// logged: they may be secret. The last actor is stored with the object, too.

// logConnectionChange logs the creation or a change of a connection, with its actor.
func (s *Server) logConnectionChange(ctx context.Context, what string, c store.Connection, more ...any) {
	s.log.InfoContext(ctx, what, append([]any{
		"request_id", requestID(ctx), "by", callerOf(ctx).actor, "connection", c.Key, "connection_id", c.ID.String(), "project", c.Project,
		"connector", c.Connector, "version", c.Version,
	}, more...)...)
}

// logScheduleChange logs the creation, a change or a firing of a schedule, with its actor.
func (s *Server) logScheduleChange(ctx context.Context, what string, of store.Schedule, more ...any) {
	s.log.InfoContext(ctx, what, append([]any{
		"request_id", requestID(ctx), "by", callerOf(ctx).actor, "schedule", of.Key, "schedule_id", of.ID.String(), "project", of.Project,
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
