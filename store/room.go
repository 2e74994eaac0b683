package store

import (
	"maps"

	"github.com/fireonce/fireonce/internal/job"
)

// Room is how many more jobs of each connection and project a worker may have.
type Room struct {
	// Connections and Projects have those that have jobs under way; for every other one
	// Connection and Project are the numbers.
	Connections map[job.ID]int
	Projects    map[string]int
	Connection  int
	Project     int
	// Unread is set by Claim: it has room left, and did not look at everything that is due.
	Unread bool
	// SetAside is set by Claim: it met work that a stop covers, and will not meet that again soon.
	// There may be more behind it.
	SetAside bool
}

// Clone returns a copy, for one run of a transaction; nil of nil.
func (r *Room) Clone() *Room {
	if r == nil {
		return nil
	}
	c := *r
	c.Connections, c.Projects = maps.Clone(r.Connections), maps.Clone(r.Projects)
	return &c
}

// Left returns at most n: how many more jobs of a connection may be taken.
func (r *Room) Left(project string, conn job.ID, n int64) int64 {
	if r == nil {
		return n
	}
	ofConn, known := r.Connections[conn]
	if !known {
		ofConn = r.Connection
	}
	ofProject, known := r.Projects[project]
	if !known {
		ofProject = r.Project
	}
	return max(0, min(n, int64(ofConn), int64(ofProject)))
}

// Take counts n jobs as taken; a negative n puts them back.
func (r *Room) Take(project string, conn job.ID, n int64) {
	if r == nil || n == 0 {
		return
	}
	if _, known := r.Connections[conn]; !known {
		if r.Connections == nil {
			r.Connections = make(map[job.ID]int)
		}
		r.Connections[conn] = r.Connection
	}
	if _, known := r.Projects[project]; !known {
		if r.Projects == nil {
			r.Projects = make(map[string]int)
		}
		r.Projects[project] = r.Project
	}
	r.Connections[conn] -= int(n)
	r.Projects[project] -= int(n)
}

// Full returns the connections and projects without room. There are few: each has a large part
// of the worker's permits.
func (r *Room) Full() (connections []job.ID, projects []string) {
	if r == nil {
		return nil, nil
	}
	for id, left := range r.Connections {
		if left <= 0 {
			connections = append(connections, id)
		}
	}
	for name, left := range r.Projects {
		if left <= 0 {
			projects = append(projects, name)
		}
	}
	return connections, projects
}
