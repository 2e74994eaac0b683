package server

import (
	"context"
	"fmt"

	"google.golang.org/protobuf/proto"

	"github.com/fireonce/fireonce/clients/go/fireoncev1"
)

// ListJobEvents implements the RPC: it returns one page of the events that a stream would send.
func (s *jobService) ListJobEvents(ctx context.Context, req *fireoncev1.ListJobEventsRequest) (*fireoncev1.ListJobEventsResponse, error) {
	f, err := s.feed(ctx, req.GetFilter(), pageSize(req.GetPageSize()), req.GetIncludeJob())
	if err != nil {
		return nil, err
	}
	if cursor := req.GetAfterCursor(); cursor != "" {
		err = f.after(cursor)
	} else {
		err = f.beginning(ctx)
	}
	if err != nil {
		return nil, fmt.Errorf("list events: %w", err)
	}
	b := f.load(ctx)
	if b.err != nil {
		return nil, b.err
	}
	if err := f.checkPosition(b.page); err != nil {
		return nil, err
	}
	out := &fireoncev1.ListJobEventsResponse{
		NextCursor: f.cursorAt(b.page.Incarnation, b.page.Next), HasMore: b.page.More,
	}
	size := 0
	for _, m := range b.messages {
		if size += proto.Size(m.GetEvent()); size > maxAnswerBytes && len(out.GetEvents()) > 0 {
			out.NextCursor, out.HasMore = out.GetEvents()[len(out.GetEvents())-1].GetCursor(), true
			break
		}
		out.Events = append(out.Events, m.GetEvent())
	}
	return out, nil
}
