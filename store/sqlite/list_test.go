package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"testing"

	"github.com/fireonce/fireonce/store"
	"github.com/fireonce/fireonce/store/sqlstore"
)

var errRecorded = errors.New("recorded")

// statementLog takes down the first statement of a list whose filter no index names, and ends
// the list there.
type statementLog struct {
	sharedView
	runner
	text string
	args []any
}

func (*statementLog) LogEnd(context.Context) (store.EventPage, error) { return store.EventPage{}, nil }

func (r *statementLog) QueryContext(_ context.Context, text string, args ...any) (*sql.Rows, error) {
	r.text, r.args = text, args
	return nil, errRecorded
}

func listStatement(t *testing.T, q store.JobQuery) (string, []any) {
	t.Helper()
	log := &statementLog{}
	roles := sqlstore.New(sqlstore.Engine{Read: func(ctx context.Context, _ string, fn func(context.Context, sqlstore.View) error) error {
		return fn(ctx, sqlstore.View{DB: dialect{log}, Now: testStart, Reading: log})
	}})
	if _, err := roles.List(t.Context(), q); !errors.Is(err, errRecorded) {
		t.Fatal(err)
	}
	return log.text, log.args
}
