package sqlite

import (
	"context"
	"fmt"
	"testing"

	"github.com/fireonce/fireonce/gen/litedb"
	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/store"
)

// TestLogKeepsAll: however events are written together, each is read as it was given, in
// their order.
func TestLogKeepsAll(t *testing.T) {
	s := mustOpen(t, Options{Path: testPath(t), Now: frozen})
	var want []job.Event
	var rows []litedb.InsertEventParams
	// Runs of usual events that end in the middle of a statement, of two actors and two
	// projects, and unusual ones between them.
	for i := range 120 {
		e := job.Event{
			Project: testProject, Job: randomID(), Connection: randomID(), Sequence: int64(i + 1),
			From: job.Sending, To: job.Succeeded, Cause: job.CauseAnswered, Attempt: i, Actor: "one", At: testStart,
		}
		switch {
		case i == 37:
			e.Reason = "reason"
		case i == 38:
			e.Detail = "detail"
		case i == 60, i == 61:
			e.Schedule = randomID()
		case i > 80 && i < 90:
			e.Actor = "two"
		case i > 90 && i < 95:
			e.Project = "other"
		}
		want = append(want, e)
		rows = append(rows, litedb.InsertEventParams{
			Project: e.Project, JobID: fromID(e.Job), ConnectionID: fromID(e.Connection), ScheduleID: fromOptionalID(e.Schedule),
			Sequence: e.Sequence, FromState: int64(e.From), ToState: int64(e.To), Cause: int64(e.Cause),
			Attempt: int64(e.Attempt), Actor: e.Actor, Reason: e.Reason, Detail: e.Detail, At: e.At.UnixMicro(),
		})
	}
	_, err := write(t.Context(), s, "log", func(ctx context.Context, tx *tx) (struct{}, error) {
		for _, r := range rows {
			if err := tx.w.log.add(ctx, tx, r); err != nil {
				return struct{}{}, err
			}
		}
		return struct{}{}, nil
	})
	must(t, err)
	p, err := s.Events(t.Context(), store.EventQuery{Limit: len(want)})
	must(t, err)
	if len(p.Events) != len(want) {
		t.Fatalf("%d events of %d", len(p.Events), len(want))
	}
	for i, got := range p.Events {
		want[i].Position = got.Position
		if fmt.Sprint(got) != fmt.Sprint(want[i]) || i > 0 && got.Position != p.Events[i-1].Position+1 {
			t.Errorf("event %d: %+v, want %+v", i, got, want[i])
		}
	}
}
