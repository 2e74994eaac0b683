package main

import (
	"database/sql"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/fireonce/fireonce/clients/go/fireoncev1"
	"github.com/fireonce/fireonce/internal/proof/memdir"
	"github.com/fireonce/fireonce/internal/proof/pgtest"

	"github.com/fireonce/fireonce/cmd/fireonce/internal/client"
	"github.com/fireonce/fireonce/cmd/fireonce/internal/follow"
	"github.com/fireonce/fireonce/cmd/fireonce/internal/receiver"
)

// upgrade is a database that a newer version migrates, and that is rolled back as docs/upgrade.md
// says.
type upgrade struct {
	dir      string
	env      []string
	database string
	newer    *sql.DB // where the newer version migrates
	words    *strings.Replacer
	stopped  bool // the server is stopped for the backup and for the migration
	backup   marker
	restore  marker
}

// TestUpgrade backs up a database, has a newer version migrate it, and rolls back, by the blocks
// of docs/upgrade.md. An older server that runs goes on, one that starts is refused, and nothing
// is sent twice.
func TestUpgrade(t *testing.T) {
	onEach(t, func(t *testing.T, d deployment) {
		t.Parallel()
		binary, err := exec.LookPath("fireonce") // this test's binary, see TestMain
		if err != nil {
			t.Fatal(err)
		}
		r, err := receiver.Start(receiver.Options{Dedupes: true})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { r.Close() })
		u := newUpgrade(t, d)
		p := u.serve(t, binary)
		connection := connect(t, dial(t, p.url), true)
		send := func(p *process, key string) {
			t.Helper()
			succeeds(t, dial(t, p.url), hook(connection, key, r.URL(key), time.Minute))
		}
		send(p, "before")
		if u.stopped {
			u.end(t, p)
		}
		u.run(t, u.backup)
		if u.stopped {
			p = u.serve(t, binary)
		}
		send(p, "after")
		if u.stopped {
			u.end(t, p)
		}

		for _, statement := range []string{"ALTER TABLE jobs ADD COLUMN of_a_newer_version text", "INSERT INTO goose_db_version (version_id, is_applied) VALUES (99, " + map[bool]string{true: "1", false: "true"}[d == onSQLite] + ")"} {
			if _, err := u.newer.ExecContext(waiting(t), statement); err != nil {
				t.Fatal(err)
			}
		}
		if !u.stopped {
			send(p, "during") // the older server goes on
		}
		u.refused(t, binary)
		if !u.stopped {
			u.end(t, p)
		}

		u.newer.Close()
		u.run(t, u.restore)
		p = u.serve(t, binary)
		send(p, "before") // the same job
		send(p, "after")  // it is gone, and submitted again
		for _, key := range []string{"before", "after"} {
			if n := r.Effects(key); n != 1 {
				t.Errorf("%s: %d effects", key, n)
			}
		}
		if before, after := r.Requests("before"), r.Requests("after"); before != 1 || after != 2 {
			t.Errorf("%d and %d requests", before, after)
		}
	})
}

func newUpgrade(t *testing.T, d deployment) *upgrade {
	t.Helper()
	u := &upgrade{dir: memdir.New(t), words: strings.NewReplacer()}
	u.env = []string{"HOME=" + u.dir, "PATH=" + os.Getenv("PATH")}
	if d == onSQLite {
		u.database, u.stopped = "sqlite:fireonce.db", true
		u.newer = openFor(t, "sqlite", "file:"+filepath.Join(u.dir, "fireonce.db"))
		u.newer.SetMaxIdleConns(0) // it has the file open for its statements alone
		u.backup, u.restore = upgradeSQLite, rollbackSQLite
		return u
	}
	long(t)
	cluster := pgtest.Shared(t)
	name := cluster.NewDatabase(t)
	u.database = cluster.URL(name)
	u.newer = openFor(t, "pgx", u.database)
	role, err := url.Parse(u.database)
	if err != nil {
		t.Fatal(err)
	}
	u.words = strings.NewReplacer("DATABASE fireonce ", "DATABASE "+name+" ", "TO fireonce_newer", "TO "+name+"_newer", "OWNER fireonce", "OWNER "+role.User.Username())
	u.env = append(u.env, "FIREONCE_DATABASE="+u.database, "ADMIN_DATABASE="+cluster.AdminURL("postgres"))
	u.backup, u.restore = upgradePostgres, rollbackPostgres
	t.Cleanup(func() { cluster.Exec(t, "postgres", "DROP DATABASE IF EXISTS "+name+"_newer WITH (FORCE)") })
	return u
}

func (u *upgrade) args() []string {
	return []string{"--dev", "--listen", "127.0.0.1:0", "--ops-listen", "off", "--database", u.database, "--key-file", "fireonce.key"}
}

func (u *upgrade) serve(t *testing.T, binary string) *process {
	t.Helper()
	p, err := startProcess(binary, u.dir, u.env, u.args()...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Kill)
	return p
}

func (u *upgrade) end(t *testing.T, p *process) {
	t.Helper()
	if err := p.stop(); err != nil {
		t.Fatal(err)
	}
}

// refused starts the server on the newer schema, and compares its words with the page's.
func (u *upgrade) refused(t *testing.T, binary string) {
	t.Helper()
	for _, args := range [][]string{append([]string{"serve"}, u.args()...), {"migrate", "--database", u.database}} {
		cmd := exec.CommandContext(waiting(t), binary, args...)
		cmd.Dir, cmd.Env = u.dir, u.env
		out, err := cmd.CombinedOutput()
		if code := cmd.ProcessState.ExitCode(); err == nil || code != 1 {
			t.Errorf("%s: exit code %d: %v\n%s", args[0], code, err, out)
		}
		for _, printed := range marked(t, upgradePage, upgradeCompares) {
			if !strings.Contains(string(out), strings.TrimSpace(printed)) {
				t.Errorf("%s prints\n%sThe command printed\n%s", upgradePage, printed, out)
			}
		}
	}
}

// run runs a block of the page.
func (u *upgrade) run(t *testing.T, m marker) {
	t.Helper()
	script := "set -e\n" + u.words.Replace(strings.Join(marked(t, upgradePage, m), "\n"))
	cmd := exec.CommandContext(waiting(t), "sh", "-c", script)
	cmd.Dir, cmd.Env = u.dir, u.env
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s\n%s", err, script, out)
	}
}

// succeeds submits a job, and waits until it has succeeded.
func succeeds(t *testing.T, api *client.API, req *fireoncev1.ScheduleJobRequest) {
	t.Helper()
	made, err := api.Jobs.ScheduleJob(waiting(t), req)
	if err != nil {
		t.Fatal(err)
	}
	var last *fireoncev1.JobChanged
	err = follow.Events(waiting(t), api.Jobs, follow.Options{
		Beginning: true, Filter: &fireoncev1.EventFilter{JobIds: []string{made.GetJob().GetJobId()}},
	}, func(e *fireoncev1.JobEvent) error {
		if last = e.GetJobChanged(); atRest(last.GetNewState()) {
			return follow.ErrStop
		}
		return nil
	})
	if err != nil || last.GetNewState() != fireoncev1.JobState_JOB_STATE_SUCCEEDED {
		t.Fatalf("%s: %v, %v", req.GetIdempotencyKey(), last, err)
	}
}
