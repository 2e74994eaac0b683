package server_test

import (
	"slices"
	"testing"

	"github.com/fireonce/fireonce/clients/go/adminv1"
	"github.com/fireonce/fireonce/server"
)

const listProjects = accessPath + "ListProjects"

// TestListProjects: the operator lists all projects, in pages, and no other caller does.
func TestListProjects(t *testing.T) {
	f := start(t, withOperator)
	c := overConnect(f)
	operator := bring(t.Context(), operatorKey)
	for _, project := range []string{"b", "a", "c"} {
		k := f.issue(project, server.Scopes())
		_, err := askWith[adminv1.ListProjectsResponse](bring(t.Context(), k.Reveal()), c, listProjects, &adminv1.ListProjectsRequest{})
		wantReason(t, err, operatorRequired)
	}
	for size, want := range map[int32]int{1: 5, 2: 3, 3: 2, 0: 1} {
		var got []string
		req, pages := &adminv1.ListProjectsRequest{PageSize: size}, 0
		for more := true; more; {
			page, err := askWith[adminv1.ListProjectsResponse](operator, c, listProjects, req)
			f.must(err)
			for _, p := range page.GetProjects() {
				got = append(got, p.GetProjectId())
			}
			req.PageToken, more = page.GetNextPageToken(), page.GetNextPageToken() != ""
			pages++
		}
		if !slices.Equal(got, []string{"a", "b", "c", "default"}) || pages != want {
			t.Errorf("pages of %d: %v in %d", size, got, pages)
		}
	}
}
