package server

import (
	"context"
	"encoding/base64"
	"fmt"

	"github.com/fireonce/fireonce/clients/go/adminv1"
	"github.com/fireonce/fireonce/clients/go/fireoncev1"
	"github.com/fireonce/fireonce/store"
)

// ListProjects implements the RPC. A page token has the last project of the page before.
func (s *accessService) ListProjects(ctx context.Context, req *adminv1.ListProjectsRequest) (*adminv1.ListProjectsResponse, error) {
	if !callerOf(ctx).all {
		return nil, operatorRequired("projects are listed")
	}
	after, err := base64.RawURLEncoding.DecodeString(req.GetPageToken())
	if err != nil {
		return nil, refuse(fireoncev1.ErrorReason_ERROR_REASON_PAGE_TOKEN_INVALID, "page_token is not one of this list", "field", "page_token")
	}
	limit := pageSize(req.GetPageSize())
	projects, err := s.store.Projects(ctx, string(after), limit)
	if err != nil {
		return nil, fmt.Errorf("list projects: %w", err)
	}
	out := &adminv1.ListProjectsResponse{Projects: convertAll(projects, func(p store.Project) *adminv1.Project {
		return &adminv1.Project{ProjectId: p.ID, CreateTime: timeToWire(p.Created), EraseTime: timeToWire(p.Erased), ErasedBy: p.ErasedBy}
	})}
	if len(projects) == limit {
		out.NextPageToken = base64.RawURLEncoding.EncodeToString([]byte(projects[limit-1].ID))
	}
	return out, nil
}
