package node

import (
	"bytes"
	"context"
	"strings"
	"testing"
	"time"

	"github.com/urfave/cli/v3"

	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/internal/proof/litetest"
	"github.com/fireonce/fireonce/store"
	"github.com/fireonce/fireonce/store/sqlite"
)

// TestRecoverWithoutQuarantine: an old state was put back so that nothing shows
// it. Who knows of it has the jobs in doubt held all the same.
func TestRecoverWithoutQuarantine(t *testing.T) {
	path := litetest.New(t)
	open := func() store.Store {
		t.Helper()
		s, err := sqlite.Open(t.Context(), sqlite.Options{Path: path})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = s.Close() })
		return s
	}
	s := open()
	conn, _, err := s.CreateConnection(t.Context(), store.NewConnection{Connection: store.Connection{
		ID: newID(), Project: "default", Connector: "webhook", Class: job.Opaque,
	}})
	if err != nil {
		t.Fatal(err)
	}
	spec := job.Spec{ID: newID(), Project: "default", Key: "due", Connection: conn.ID, HoldKey: "h", PayloadKind: "webhook"}
	if _, err := s.Create(t.Context(), []store.NewJob{{Spec: spec}}); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}

	since := time.Now().UTC().Format(time.RFC3339)
	run := func(args ...string) string {
		t.Helper()
		var out bytes.Buffer
		root := &cli.Command{Name: "fireonce", Writer: &out, Commands: []*cli.Command{recoverCommand()}}
		if err := root.Run(t.Context(), append([]string{"fireonce", "recover", "--database", "sqlite:" + path}, args...)); err != nil {
			t.Fatal(err)
		}
		return out.String()
	}
	for _, args := range [][]string{nil, {"--as", "retry", "--since", since}} {
		if out := run(args...); !strings.Contains(out, "not quarantined") {
			t.Errorf("recover %v: %s", args, out)
		}
	}
	if out := run("--as", "hold", "--since", since); !strings.HasPrefix(out, "1 job needs a person") {
		t.Errorf("recover --as hold: %s", out)
	}
	s = open()
	snap, err := s.Job(t.Context(), store.Ref{ID: spec.ID})
	if err != nil || snap.State != job.NeedsResolution {
		t.Errorf("the job in doubt: %s, %v", snap.State, err)
	}
	if m, err := s.Meta(t.Context()); err != nil || m.Quarantined != "" || m.Incarnation != 2 {
		t.Errorf("meta: %+v, %v", m, err)
	}
}

// unheld is a store with a job in doubt that cannot be held.
type unheld struct{ store.Store }

func (unheld) Doubtful(context.Context, time.Time, int) ([]job.Snapshot, error) {
	var s job.Snapshot
	s.ID, s.State, s.Class = newID(), job.Succeeded, job.Opaque
	return []job.Snapshot{s}, nil
}

// TestHoldDoubtfulFails where a job stays in doubt: the database must not be released.
func TestHoldDoubtfulFails(t *testing.T) {
	if n, err := holdDoubtful(t.Context(), unheld{}, time.Now()); err == nil || n != 0 {
		t.Errorf("%d jobs were held, %v; want an error that names the job", n, err)
	}
}
