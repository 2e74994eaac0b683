package sqlite

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/store"
	"github.com/fireonce/fireonce/store/logpage"
)

// TestLogKeepsAll: events are read as they were written, in their order, whatever their pages
// are.
func TestLogKeepsAll(t *testing.T) {
	s := mustOpen(t, Options{Path: testPath(t), Now: frozen})
	var want []job.Event
	for i := range 2*logpage.MaxEvents + 100 {
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
	}
	_, err := write(t.Context(), s, "log", func(_ context.Context, tx *tx) (struct{}, error) {
		for _, e := range want {
			tx.note(noted(e.Project, e.Job, e.Connection, e.Schedule, e.Sequence, e.To), e)
		}
		return struct{}{}, nil
	})
	must(t, err)
	for _, project := range []string{"", testProject, "other"} {
		q := store.EventQuery{Project: project}
		var got []job.Event
		for more := true; more; {
			p, err := s.Events(t.Context(), q)
			must(t, err)
			got, q.After, more = append(got, p.Events...), p.Next, p.More
		}
		n := 0
		for i, e := range want {
			if project != "" && e.Project != project {
				continue
			}
			e.Position = int64(i + 1)
			if n >= len(got) || fmt.Sprint(got[n]) != fmt.Sprint(e) {
				t.Fatalf("project %q: %d events, number %d is not %+v", project, len(got), n, e)
			}
			n++
		}
		if n != len(got) {
			t.Errorf("project %q: %d events of %d", project, len(got), n)
		}
	}
}

// TestLogOfInterleavedPages: a reader of all projects gets the events of a transaction in
// their order, from every position.
func TestLogOfInterleavedPages(t *testing.T) {
	s := mustOpen(t, Options{Path: testPath(t), Now: frozen})
	const rounds, projects = 5, 7
	for range rounds {
		_, err := write(t.Context(), s, "log", func(_ context.Context, tx *tx) (struct{}, error) {
			for i := range 3 * projects {
				id := randomID()
				tx.note(noted(fmt.Sprint("p", i*i%projects), id, id, job.ID{}, 1, job.Scheduled), job.Event{Cause: job.CauseSubmitted})
			}
			return struct{}{}, nil
		})
		must(t, err)
	}
	last := int64(rounds * 3 * projects)
	for after := range last {
		for _, most := range []int{1, 10, 2000} {
			_, err := read(t.Context(), s, "log", func(ctx context.Context, v view) (struct{}, error) {
				entries, more, err := v.allEntries(ctx, after, most)
				must(t, err)
				if len(entries) == 0 || !more && entries[len(entries)-1].Position != last {
					t.Fatalf("after %d: %d events, more %v", after, len(entries), more)
				}
				for i, e := range entries {
					if e.Position != after+int64(i)+1 {
						t.Fatalf("after %d: event %d has position %d", after, i, e.Position)
					}
				}
				return struct{}{}, nil
			})
			must(t, err)
		}
	}
}

// TestLogOfRefusals: a refused operation leaves no event, with or without a savepoint.
func TestLogOfRefusals(t *testing.T) {
	s := mustOpen(t, Options{Path: testPath(t), Now: frozen})
	conn := mustConnect(t, s)
	refused := errors.New("refused")
	note := func(tx *tx, n job.ID) {
		tx.note(noted(testProject, n, conn.ID, job.ID{}, 1, job.Scheduled), job.Event{Cause: job.CauseSubmitted})
	}
	for _, dirty := range []bool{false, true} {
		_, err := write(t.Context(), s, "refused", func(_ context.Context, tx *tx) (struct{}, error) {
			note(tx, randomID())
			tx.w.ses.dirty = dirty
			return struct{}{}, refused
		})
		wantErr(t, err, refused)
		_, err = write(t.Context(), s, "items", func(ctx context.Context, tx *tx) (struct{}, error) {
			for i := range 3 {
				_, fatal := tx.runItem(ctx, 3, func() error {
					note(tx, randomID())
					if i == 1 {
						tx.w.ses.dirty = dirty
						return store.ErrStale
					}
					return nil
				})
				if fatal != nil {
					return struct{}{}, fatal
				}
			}
			return struct{}{}, nil
		})
		must(t, err)
	}
	p, err := s.Events(t.Context(), store.EventQuery{Project: testProject})
	must(t, err)
	if len(p.Events) != 4 || p.End != 4 {
		t.Errorf("%d events, the log ends at %d; want 4", len(p.Events), p.End)
	}
}

// noted is a job with what its event has of it.
func noted(project string, id, connection, schedule job.ID, version int64, state job.State) *job.Job {
	return &job.Job{
		Spec:   job.Spec{ID: id, Project: project, Connection: connection, Schedule: schedule},
		Status: job.Status{State: state, Version: version},
	}
}
