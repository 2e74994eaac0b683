package node

import (
	"bytes"
	"context"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/urfave/cli/v3"
	"google.golang.org/protobuf/proto"

	"github.com/fireonce/fireonce/clients/go/connectionsv1"
	"github.com/fireonce/fireonce/clients/go/fireoncev1"
	"github.com/fireonce/fireonce/clients/go/schedulesv1"
	"github.com/fireonce/fireonce/internal/connector"
	"github.com/fireonce/fireonce/internal/connector/webhook"
	"github.com/fireonce/fireonce/internal/firing"
	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/internal/proof/litetest"
	"github.com/fireonce/fireonce/internal/proof/pgtest"
	"github.com/fireonce/fireonce/internal/recur"
	"github.com/fireonce/fireonce/internal/schedule"
	"github.com/fireonce/fireonce/store"
	"github.com/fireonce/fireonce/store/postgres"
	"github.com/fireonce/fireonce/store/sqlite"
)

// restorable is a database that can be put back to an earlier state.
type restorable struct {
	url  string
	open func(now func() time.Time) (store.Store, error)
	// aside puts the state away, and returns what brings it back. No store is open.
	aside func() (back func())
}

func restorableFile(t *testing.T) restorable {
	path := litetest.New(t)
	return restorable{
		url: "sqlite:" + path,
		open: func(now func() time.Time) (store.Store, error) {
			return sqlite.Open(context.Background(), sqlite.Options{Path: path, Now: now, Readers: 1})
		},
		aside: func() func() {
			data, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			return func() {
				for _, beside := range []string{"-wal", "-shm"} {
					if err := os.Remove(path + beside); err != nil && !os.IsNotExist(err) {
						t.Fatal(err)
					}
				}
				if err := os.WriteFile(path, data, 0o600); err != nil {
					t.Fatal(err)
				}
			}
		},
	}
}

func restorableDump(t *testing.T) restorable {
	cluster := pgtest.Shared(t)
	database := cluster.NewDatabase(t)
	url := cluster.URL(database)
	if err := postgres.Migrate(t.Context(), url); err != nil {
		t.Fatal(err)
	}
	return restorable{
		url: url,
		open: func(now func() time.Time) (store.Store, error) {
			return postgres.Open(context.Background(), postgres.Options{URL: url, Now: now})
		},
		aside: func() func() {
			dump := cluster.Dump(t, database)
			return func() { cluster.Restore(t, database, dump) }
		},
	}
}

// TestRestoredSchedule: a schedule fires, and then the database is one from before. The firings
// of the lost time make no job again until a person says so; later ones do.
func TestRestoredSchedule(t *testing.T) {
	for name, database := range map[string]func(*testing.T) restorable{"sqlite": restorableFile, "postgres": restorableDump} {
		t.Run(name, func(t *testing.T) { restoredSchedule(t, database(t)) })
	}
}

func restoredSchedule(t *testing.T, db restorable) {
	ok := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	zones := recur.NewZones("")
	registry, err := connector.NewRegistry(webhook.New(webhook.Config{}))
	ok(err)
	// with works on the database at a time.
	with := func(now time.Time, work func(s store.Store, fires *schedule.Scheduler)) {
		t.Helper()
		s, err := db.open(func() time.Time { return now })
		ok(err)
		work(s, schedule.New(schedule.Config{Store: s, Connectors: registry, Zones: zones, NewID: newID}))
		ok(s.Close())
	}
	fire := func(s *schedule.Scheduler) (n int) {
		t.Helper()
		for more := true; more; {
			var fired int
			fired, more, err = s.Once(t.Context())
			ok(err)
			n += fired
		}
		return n
	}

	present := time.Now().Truncate(time.Minute)
	backup := present.Add(-time.Hour)
	spec := &schedulesv1.ScheduleSpec{TimeZone: "UTC", CronExpressions: []string{"* * * * *"}}
	marshal := func(m proto.Message) []byte {
		t.Helper()
		b, err := proto.Marshal(m)
		ok(err)
		return b
	}
	id := newID()
	ref := store.Ref{Project: "default", ID: id}
	with(backup, func(s store.Store, _ *schedule.Scheduler) {
		settings := marshal(&connectionsv1.WebhookSettings{})
		conn, _, err := s.CreateConnection(t.Context(), store.NewConnection{Key: "c", Connection: store.Connection{
			ID: newID(), Project: "default", Connector: "webhook", Class: job.Opaque, Settings: settings,
		}})
		ok(err)
		times, err := schedule.Compile(id, 1, spec, zones)
		ok(err)
		cursor, err := firing.Begin(times, backup)
		ok(err)
		_, _, err = s.CreateSchedule(t.Context(), store.NewSchedule{Schedule: store.Schedule{
			ID: id, Project: "default", Key: "s", Connection: conn.ID, State: store.ScheduleActive, Cursor: cursor, Next: backup,
			Spec: marshal(spec), Policies: marshal(&schedulesv1.SchedulePolicies{
				Overlap: schedulesv1.OverlapPolicy_OVERLAP_POLICY_ALLOW, CatchUp: schedulesv1.CatchUpPolicy_CATCH_UP_POLICY_ALL,
			}),
			Template: marshal(&schedulesv1.JobTemplate{Content: &schedulesv1.JobTemplate_Payload{Payload: &fireoncev1.Payload{Kind: &fireoncev1.Payload_Webhook{
				Webhook: &fireoncev1.Webhook{Url: "https://example.com/"},
			}}}}),
		}})
		ok(err)
	})
	back := db.aside()
	with(backup.Add(30*time.Minute), func(_ store.Store, fires *schedule.Scheduler) {
		if n := fire(fires); n != 30 {
			t.Fatalf("%d fired before the restore", n)
		}
	})
	back()
	with(present, func(s store.Store, fires *schedule.Scheduler) {
		if m, err := s.Meta(t.Context()); err != nil || m.Quarantined == "" {
			t.Fatalf("not quarantined: %+v, %v", m, err)
		}
		if _, _, err := fires.Once(t.Context()); err == nil {
			t.Error("fired under a quarantine")
		}
		if _, _, err := fires.Trigger(t.Context(), ref, "k", true); err == nil {
			t.Error("triggered under a quarantine")
		}
	})

	before := time.Now()
	var out bytes.Buffer
	root := &cli.Command{Name: "fireonce", Writer: &out, Commands: []*cli.Command{recoverCommand()}}
	ok(root.Run(t.Context(), []string{"fireonce", "recover", "--database", db.url, "--as", "retry", "--since", backup.Format(time.RFC3339)}))
	if !strings.Contains(out.String(), "is released") {
		t.Fatalf("recover: %s", out.String())
	}

	released := time.Now()
	// Two minutes pass.
	later := time.Now().Add(2 * time.Minute)
	with(later, func(s store.Store, fires *schedule.Scheduler) {
		n := fire(fires)
		sched, err := s.Schedule(t.Context(), ref)
		ok(err)
		all := int64(later.Sub(backup) / time.Minute)
		if c := sched.Counts; c.Held < 60 || n == 0 || c.Fired != int64(n) || c.Held+c.Fired != all {
			t.Errorf("%d fired; counts %+v of %d times", n, c, all)
		}
		p, err := s.Firings(t.Context(), store.FiringQuery{Project: "default", Schedule: id, Limit: 500})
		ok(err)
		for _, f := range p.Firings {
			held := f.Outcome == store.FiringHeld
			if held && (f.Nominal.After(released) || f.Reason == "") || !held && !f.Nominal.After(before) {
				t.Errorf("%s, released between %s and %s: %+v", f.Name, before, released, f)
			}
		}
		b, err := fires.Backfill(t.Context(), ref, backup.Add(time.Minute), backup.Add(4*time.Minute), func(int) error { return nil })
		ok(err)
		if len(b.Firings) != 3 || b.Present != 0 {
			t.Errorf("a person made up for %+v", b)
		}
	})
}
