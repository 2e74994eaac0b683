package postgres

import (
	"context"

	"github.com/fireonce/fireonce/gen/pgdb"
)

// Rules of this file:
//   - each transaction that stores, removes or changes jobs or items of schedules adds a row
//     to project_use. No row is ever updated, so transactions of one project do not wait for
//     each other;
//   - a read replaces many rows by their sum;
//   - exact counts are made under a lock of the project and the kind, which is the first lock
//     that its transaction takes.

// foldRows bounds the rows that one transaction replaces.
const foldRows = 10_000

// FoldUse implements sqlstore.Writing.
func (w writing) FoldUse(ctx context.Context, project string) error {
	return w.t.q.FoldUse(ctx, pgdb.FoldUseParams{Project: project, MaxRows: foldRows})
}
