package server

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/fireonce/fireonce/clients/go/fireoncev1"
	"github.com/fireonce/fireonce/clients/go/subscriptionsv1"
	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/internal/notice"
	"github.com/fireonce/fireonce/store"
)

// This file converts what notices tell, as the API shows it.

var _ notice.Wire = (*Server)(nil)

// NoticeEvents implements notice.Wire.
func (s *Server) NoticeEvents(ctx context.Context, project string, page store.EventPage, content bool) ([]*fireoncev1.JobEvent, error) {
	f := &feed{server: s, query: store.EventQuery{Project: project}, kind: logCursor, owner: s.tokens.owner(project)}
	messages, err := f.messages(ctx, page)
	if err != nil {
		return nil, err
	}
	out := make([]*fireoncev1.JobEvent, len(messages))
	for i, m := range messages {
		if !content {
			m = withoutContent(m)
		}
		out[i] = m.GetEvent()
	}
	return out, nil
}

// NoticeCursor implements notice.Wire.
func (s *Server) NoticeCursor(project string, incarnation, position int64) string {
	return s.tokens.cursor(project, incarnation, position)
}

// NoticeCause implements notice.Wire.
func (*Server) NoticeCause(c job.Cause) fireoncev1.EventCause { return causeToWire(c) }

// NoticeConnections implements notice.Wire.
func (s *Server) NoticeConnections(
	ctx context.Context, project string, ids []job.ID, content bool,
) ([]*subscriptionsv1.ConnectionChange, error) {
	page, err := s.store.ListConnections(ctx, store.ConnectionQuery{Project: project, Deleted: true, Connections: ids, Limit: len(ids)})
	if err != nil {
		return nil, fmt.Errorf("read the connections of a notice: %w", err)
	}
	targets := make([]store.StopTarget, len(page.Connections))
	for i, c := range page.Connections {
		targets[i] = store.StopTarget{Project: c.Project, Connector: c.Connector, Connection: c.ID}
	}
	over, err := s.store.StopsOver(ctx, targets)
	if err != nil {
		return nil, fmt.Errorf("read the pauses over the connections of a notice: %w", err)
	}
	var out []*subscriptionsv1.ConnectionChange
	for i, c := range page.Connections {
		wire, err := connectionToWire(c, s.cfg.Now(), s.credentialRequired)
		if err != nil {
			return nil, err
		}
		if !content {
			if withholdRefusal(wire); wire.GetContentWithheld() {
				wire.StateReason = ""
			}
		}
		change := &subscriptionsv1.ConnectionChange{
			ConnectionKey: wire.GetIdempotencyKey(), DisplayName: wire.GetDisplayName(), AccountIdentity: wire.GetAccountIdentity(),
			Cause: wire.GetStateCause(), Reason: wire.GetStateReason(), ConnectionId: wire.GetConnectionId(),
			StartTime: cmp.Or(wire.GetAuthHoldTime(), wire.GetPauseTime()),
		}
		if change.GetCause() == 0 && over[i] != nil {
			change.Cause = fireoncev1.ConnectionStateCause_CONNECTION_STATE_CAUSE_PAUSED
			change.StartTime = timeToWire(over[i].Begin)
			if !over[i].End.IsZero() {
				change.Reason = "Paused until " + over[i].End.UTC().Format(time.RFC3339) + "."
			}
		}
		if !c.CredentialRenews {
			change.CredentialExpireTime = wire.GetCredentialExpireTime()
		}
		out = append(out, change)
	}
	return out, nil
}

// ConnectionKeys implements notice.Wire.
func (s *Server) ConnectionKeys(ctx context.Context, project string, ids []job.ID) (map[job.ID]string, error) {
	return s.keys.keys(ctx, project, ids, nil)
}
