package sqlite

import (
	"context"
	"errors"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/fireonce/fireonce/store"
	"github.com/fireonce/fireonce/store/storetest"
)

// newsOf collects the news of the belief in a machine's clock.
type newsOf struct {
	mu   sync.Mutex
	news []store.ClockNews
}

func (n *newsOf) report(one store.ClockNews) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.news = append(n.news, one)
}

// take returns the news since it was called last.
func (n *newsOf) take() []store.ClockNews {
	n.mu.Lock()
	defer n.mu.Unlock()
	news := n.news
	n.news = nil
	return news
}

// An operation that begins after the clock is believed does not see it as suspect, even when
// the writer takes it in a group that began before.
func TestAGroupEndsWhereTheClockAsksForAStep(t *testing.T) {
	refused := store.ErrNotFound // any other error than a verdict spoils the group
	for _, tt := range []struct {
		name string
		// before is what the group runs before the clock is believed.
		before func(context.Context, *tx) error
	}{
		{"after one that is refused", func(context.Context, *tx) error { return refused }},
		{"after one that writes", addProject("before")},
		{"after one that spoils the group", func(ctx context.Context, t *tx) error {
			return errors.Join(addProject("never")(ctx, t), errors.New("broken"))
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			clock := storetest.NewMachine(testStart)
			s := mustOpen(t, Options{Path: testPath(t), Clock: store.ClockOptions{Read: clock.Read}})
			clock.Set(time.Hour)
			var before, after store.ClockMoment
			saw := func(into *store.ClockMoment) func(context.Context, *tx) error {
				return func(_ context.Context, t *tx) error {
					*into = store.ClockMoment{Now: t.now.UnixMicro(), Suspect: t.suspect}
					return refused
				}
			}
			errs := group(t, s,
				func(ctx context.Context, t *tx) error {
					_ = saw(&before)(ctx, t)
					defer clock.Prove("the test knows it")
					return tt.before(ctx, t)
				},
				saw(&after), addProject("after"),
			)
			must(t, errs[2])
			if before.Suspect.Why == "" || after.Suspect.Why != "" || after.Now-before.Now != time.Hour.Microseconds() {
				t.Errorf("before: %+v, after: %+v", before, after)
			}
			if got := projects(t, s); !got["after"] || got["never"] {
				t.Errorf("projects: %v", got)
			}
		})
	}
}

// A group of operations that are all refused ends nevertheless, because others wait for its
// commit.
func TestAGroupOfRefusedOperationsEnds(t *testing.T) {
	s := mustOpen(t, Options{Path: testPath(t)})
	refused, turns := store.ErrNotFound, 0
	var commits, committed int
	inner := s.writer.commit
	fns := []func(context.Context, *tx) error{func(context.Context, *tx) error {
		s.writer.commit = func(ctx context.Context) error {
			if commits++; commits == 1 {
				committed = turns
			}
			return inner(ctx)
		}
		return nil
	}}
	for range 2 * maxGroup {
		fns = append(fns, func(context.Context, *tx) error { turns++; return refused })
	}
	must(t, group(t, s, fns...)[0])
	if committed > maxGroup {
		t.Errorf("%d operations were refused before the commit", committed)
	}
}

// A step that cannot be written leaves nothing behind, is reported, and is tried again.
func TestAStepThatFails(t *testing.T) {
	clock := storetest.NewMachine(testStart)
	news := &newsOf{}
	s := mustOpen(t, Options{Path: testPath(t), Clock: store.ClockOptions{Read: clock.Read, Report: news.report}})
	must(t, group(t, s, addProject("a"))[0])
	broken, tries := errors.New("disk full"), 0
	inner := s.writer.commit
	must(t, group(t, s, func(context.Context, *tx) error {
		s.writer.commit = func(ctx context.Context) error {
			if s.clock.belief.Suspect().Why != "" && tries == 0 { // of the step
				tries++
				return broken
			}
			return inner(ctx)
		}
		return nil
	})[0])
	clock.Set(time.Hour)
	clock.Prove("the test knows it")
	must(t, group(t, s, addProject("b"))[0])
	if got := news.take(); len(got) != 2 || got[0].Suspect.Why == "" || !errors.Is(got[1].Failed, broken) || got[1].Suspect.Why == "" {
		t.Fatalf("news: %+v", got)
	}
	must(t, group(t, s, addProject("c"))[0])
	if got := news.take(); len(got) > 0 {
		t.Errorf("tried again without a pause: %+v", got)
	}
	clock.Pass(time.Second)
	must(t, group(t, s, addProject("d"))[0])
	if got := news.take(); len(got) != 1 || got[0].Suspect.Why != "" || got[0].Step != time.Hour {
		t.Errorf("news: %+v", got)
	}
	wantProjects(t, s, "a", "b", "c", "d")
}

// A suspect clock stays suspect in the next process, and is suspect from then on if it was
// set in between.
func TestADoubtIsSaved(t *testing.T) {
	for set, want := range map[time.Duration]bool{0: true, time.Hour: false} {
		clock := storetest.NewMachine(testStart)
		opts := Options{Path: testPath(t), Clock: store.ClockOptions{Read: clock.Read, SuspectFor: 10 * time.Minute}}
		s := mustOpen(t, opts)
		must(t, group(t, s, addProject("a"))[0])
		clock.Set(-time.Minute)
		must(t, group(t, s, addProject("b"))[0])
		clock.Pass(9 * time.Minute) // long enough for the clock to be saved
		must(t, group(t, s, addProject("c"))[0])
		must(t, s.Close())
		clock.Set(set)
		s = mustOpen(t, opts)
		clock.Pass(time.Minute)
		must(t, group(t, s, addProject("d"))[0])
		clock.Pass(time.Second)
		must(t, group(t, s, addProject("e"))[0])
		if believed := s.clock.belief.Suspect().Why == ""; believed != want {
			t.Errorf("set by %v between: believed: %v", set, believed)
		}
	}
}

func TestClockColumns(t *testing.T) {
	path := testPath(t)
	must(t, mustOpen(t, Options{Path: path}).Close())
	db := raw(t, path)
	rows, err := db.Query(`SELECT m.name, c.name FROM sqlite_master AS m JOIN pragma_table_xinfo(m.name) AS c
		WHERE m.type = 'table' AND c.type LIKE 'INTEGER%' AND m.name NOT LIKE 'sqlite_%' AND m.name NOT LIKE 'goose_%'`)
	must(t, err)
	defer func() { _ = rows.Close() }()
	var columns []string
	for rows.Next() {
		var table, column string
		must(t, rows.Scan(&table, &column))
		if storetest.TimeColumn.MatchString(column) {
			columns = append(columns, table+"."+column)
		}
	}
	must(t, rows.Err())
	queries, err := os.ReadFile("queries_clock.sql")
	must(t, err)
	shared, err := os.ReadFile("../sqlstore/queries_clock.sql")
	must(t, err)
	storetest.ClockColumns(t, columns, string(queries)+string(shared))
}
