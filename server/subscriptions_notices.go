package server

import (
	"context"

	"github.com/fireonce/fireonce/clients/go/fireoncev1"
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

// ConnectionKeys implements notice.Wire.
func (s *Server) ConnectionKeys(ctx context.Context, project string, ids []job.ID) (map[job.ID]string, error) {
	return s.keys.keys(ctx, project, ids, nil)
}
