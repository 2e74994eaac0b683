package sqlite

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"testing"

	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/store"
	"github.com/fireonce/fireonce/store/sqlstore"
)

// group runs operations in one transaction, in their order, and returns their errors: a first
// operation keeps the writer busy until all are queued.
func group(t *testing.T, s *Store, fns ...func(context.Context, *tx) error) []error {
	t.Helper()
	begun, leave := make(chan struct{}), make(chan struct{})
	once := sync.OnceFunc(func() { close(begun) }) // a group may run twice
	first := sqlstore.NewCall(operation{run: func(context.Context, *tx) error {
		once()
		<-leave
		return nil
	}})
	must(t, s.writer.queue.Add(t.Context(), first))
	<-begun
	ops := make([]*op, len(fns))
	for i, fn := range fns {
		ops[i] = sqlstore.NewCall(operation{run: fn})
		must(t, s.writer.queue.Add(t.Context(), ops[i]))
	}
	close(leave)
	<-first.Done
	errs := make([]error, len(fns))
	for i, o := range ops {
		errs[i] = <-o.Done
	}
	return errs
}

func addProject(name string) func(context.Context, *tx) error {
	return func(ctx context.Context, t *tx) error {
		_, err := t.w.ses.ExecContext(ctx, "INSERT INTO projects (id, created_at) VALUES (?, 0)", name)
		return err
	}
}

func projects(t *testing.T, s *Store) map[string]bool {
	t.Helper()
	got, err := read(t.Context(), s, "projects", func(ctx context.Context, v view) (map[string]bool, error) {
		rows, err := v.conn.QueryContext(ctx, "SELECT id FROM projects WHERE id <> 'default'")
		if err != nil {
			return nil, err
		}
		defer rows.Close()
		got := make(map[string]bool)
		for rows.Next() {
			var id string
			if err := rows.Scan(&id); err != nil {
				return nil, err
			}
			got[id] = true
		}
		return got, rows.Err()
	})
	must(t, err)
	return got
}

func wantProjects(t *testing.T, s *Store, want ...string) {
	t.Helper()
	got := projects(t, s)
	for _, name := range want {
		if !got[name] {
			t.Errorf("%s is missing in %v", name, got)
		}
	}
	if len(got) != len(want) {
		t.Errorf("projects: got %v, want %v", got, want)
	}
}

func TestGroupIsolatesFailure(t *testing.T) {
	s := mustOpen(t, Options{Path: testPath(t)})
	commits := 0
	inner := s.writer.commit
	must(t, group(t, s, func(context.Context, *tx) error {
		s.writer.commit = func(ctx context.Context) error {
			commits++
			return inner(ctx)
		}
		return nil
	})[0])
	commits = 0
	bad := errors.New("bad")
	errs := group(t, s,
		addProject("a"),
		func(ctx context.Context, tx *tx) error {
			return errors.Join(addProject("never")(ctx, tx), bad)
		},
		addProject("a"), // refused by a constraint of the database
		addProject("b"),
	)
	must(t, errs[0])
	wantErr(t, errs[1], bad)
	wantErr(t, errs[2], store.ErrIllegal)
	must(t, errs[3])
	wantProjects(t, s, "a", "b")
	if commits != 1 {
		t.Errorf("%d commits for one group", commits)
	}
}

func TestGroupCommitFails(t *testing.T) {
	s := mustOpen(t, Options{Path: testPath(t)})
	broken := errors.New("disk")
	inner := s.writer.commit
	errs := group(t, s,
		addProject("a"),
		func(ctx context.Context, tx *tx) error {
			s.writer.commit = func(context.Context) error {
				s.writer.commit = inner
				return broken
			}
			return addProject("b")(ctx, tx)
		},
		func(context.Context, *tx) error { return store.ErrNotFound },
	)
	for _, err := range errs { // the refused one too: what it saw is gone
		wantErr(t, err, store.ErrUnconfirmed)
		wantErr(t, err, broken)
	}
	must(t, group(t, s, addProject("after"))[0])
	wantProjects(t, s, "after")
}

// TestGroupLost makes SQLite end the transaction by itself, as it does when the disk is full:
// its writes are gone, and the writer continues.
func TestGroupLost(t *testing.T) {
	s := mustOpen(t, Options{Path: testPath(t)})
	errs := group(t, s, addProject("a"), func(ctx context.Context, tx *tx) error {
		_, err := tx.w.ses.ExecContext(ctx, "ROLLBACK")
		return errors.Join(err, errors.New("disk full"))
	})
	for _, err := range errs {
		wantErr(t, err, store.ErrUnavailable)
	}
	must(t, group(t, s, addProject("after"))[0])
	wantProjects(t, s, "after")
}

func TestAbandonedOperationNeverRuns(t *testing.T) {
	s := mustOpen(t, Options{Path: testPath(t)})
	ctx, cancel := context.WithCancel(t.Context())
	gaveUp := make(chan error, 1)
	errs := group(t, s, func(context.Context, *tx) error {
		// While the writer is here, a caller queues an operation and stops waiting.
		go func() {
			_, err := write(ctx, s, "late", func(ctx context.Context, tx *tx) (int, error) {
				return 0, addProject("never")(ctx, tx)
			})
			gaveUp <- err
		}()
		for n, _ := s.Saturation(); n == 0; n, _ = s.Saturation() {
			runtime.Gosched()
		}
		cancel()
		wantErr(t, <-gaveUp, context.Canceled)
		return nil
	})
	must(t, errs[0])
	wantProjects(t, s)
}

func TestBegunOperationIsAnswered(t *testing.T) {
	s := mustOpen(t, Options{Path: testPath(t)})
	ctx, cancel := context.WithCancel(t.Context())
	_, err := write(ctx, s, "begun", func(opctx context.Context, tx *tx) (int, error) {
		cancel()
		return 0, addProject("a")(opctx, tx)
	})
	must(t, err)
	wantProjects(t, s, "a")
}

func TestCloseAnswersTheQueue(t *testing.T) {
	s := mustOpen(t, Options{Path: testPath(t)})
	conn := mustConnect(t, s)
	const callers = 200
	errs := make([]error, callers)
	items := make([]store.NewJob, callers)
	var wg sync.WaitGroup
	for i := range callers {
		items[i] = newJob(conn)
		wg.Go(func() { _, errs[i] = s.Create(context.Background(), items[i:i+1]) })
	}
	must(t, s.Close())
	wg.Wait()
	again := mustOpen(t, Options{Path: s.opts.Path})
	for i, err := range errs {
		_, found := again.Job(t.Context(), store.Ref{ID: items[i].Spec.ID})
		switch {
		case err == nil:
			must(t, found)
		case errors.Is(err, store.ErrUnavailable):
			wantErr(t, found, store.ErrNotFound)
		default:
			t.Errorf("job %d: %v", i, err)
		}
	}
}

func TestItemVerdictsShareAGroup(t *testing.T) {
	s := mustOpen(t, Options{Path: testPath(t), Now: frozen})
	conn := mustConnect(t, s)
	jobs := mustCreate(t, s, newJob(conn), newJob(conn), newJob(conn))
	changes := make([]store.Change, len(jobs))
	for i, j := range jobs {
		d, err := job.Decide(j.View(job.Traits{}, 0), job.CancelAsked{})
		must(t, err)
		changes[i] = store.Change{Job: j.ID, Version: j.Version, Decision: d}
	}
	changes[1].Decision.Round = 0 // a constraint of the database refuses it late
	out, err := s.Apply(t.Context(), changes)
	must(t, err)
	must(t, out[0].Err)
	wantErr(t, out[1].Err, store.ErrIllegal)
	must(t, out[2].Err)
	page, err := s.Events(t.Context(), store.EventQuery{Project: testProject})
	must(t, err)
	if len(page.Events) != 5 {
		t.Errorf("%d events, want 5", len(page.Events))
	}
	for i, e := range page.Events {
		if e.Position != int64(i+1) {
			t.Errorf("event %d has position %d", i+1, e.Position)
		}
	}
}

// TestARefusalIsAnsweredAfterWhatItSaw refuses an operation for what an earlier one of its group has
// written. Its caller must read that when it has its answer.
func TestARefusalIsAnsweredAfterWhatItSaw(t *testing.T) {
	for _, tt := range []struct {
		name  string
		spoil error
	}{{"at the first try", nil}, {"in a group that runs again", errors.New("broken")}} {
		t.Run(tt.name, func(t *testing.T) {
			s := mustOpen(t, Options{Path: testPath(t)})
			refused := sqlstore.NewCall(operation{run: func(context.Context, *tx) error { return store.ErrStale }})
			early := false
			inner := s.writer.commit
			last := sqlstore.NewCall(operation{run: func(ctx context.Context, t *tx) error {
				return errors.Join(addProject("last")(ctx, t), tt.spoil)
			}})
			follow := sync.OnceFunc(func() { // a group may run twice
				must(t, s.writer.queue.Add(t.Context(), refused))
				must(t, s.writer.queue.Add(t.Context(), last))
			})
			errs := group(t, s, func(ctx context.Context, t *tx) error {
				s.writer.commit = func(ctx context.Context) error {
					early = early || len(refused.Done) > 0
					return inner(ctx)
				}
				follow()
				return addProject("first")(ctx, t)
			})
			must(t, errs[0])
			if err := <-refused.Done; !errors.Is(err, store.ErrStale) {
				t.Errorf("refused with %v", err)
			}
			if err := <-last.Done; !errors.Is(err, tt.spoil) {
				t.Errorf("the last one: %v", err)
			}
			if early {
				t.Error("the refusal was answered before the commit of what it saw")
			}
		})
	}
}
