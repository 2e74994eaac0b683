package engine

import (
	"cmp"
	"log/slog"

	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/store"
)

// logged names a job in a line of the log as its users do, and by its id. Of a connection that
// the line's author does not know, the id is logged.
func logged(s *job.Snapshot, conn *store.Connection) slog.Attr {
	return slog.Group("", "key", s.Key, "connection", cmp.Or(conn.Key, s.Connection.String()), "job", s.ID.String())
}
