//go:build unix

package pgtest

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

func TestNewGivesAnEmptyDatabaseOfItsOwn(t *testing.T) {
	t.Parallel()
	a, b := New(t), New(t)
	if a == b {
		t.Fatalf("twice %s", a)
	}
	c := Shared(t)
	as := func(url, sql string) string {
		out, err := c.client("psql", "-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-d", url, "-c", sql)
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	as(a, "CREATE TABLE here (id int)")
	for sql, want := range map[string]string{
		"SELECT count(*) FROM pg_tables WHERE tablename = 'here'":             "0",
		"SELECT rolname, rolsuper FROM pg_roles WHERE rolname = CURRENT_USER": role + "|f",
		"SELECT setting FROM pg_settings WHERE name = 'fsync'":                "on",
	} {
		if got := as(b, sql); got != want {
			t.Errorf("%s: %q, want %q", sql, got, want)
		}
	}
}

func TestDatabaseIsDroppedAfterItsTest(t *testing.T) {
	t.Parallel()
	c := Shared(t)
	var name string
	t.Run("test", func(t *testing.T) { name = c.NewDatabase(t) })
	if got := c.Exec(t, "postgres", "SELECT count(*) FROM pg_database WHERE datname = '"+name+"'"); got != "0" {
		t.Errorf("%s is still there", name)
	}
}

func TestReusedHasTheRowsOfPrepare(t *testing.T) {
	t.Parallel()
	c := Shared(t)
	prepare := func(ctx context.Context, url string) error {
		conn, err := pgx.Connect(ctx, url)
		if err != nil {
			return err
		}
		_, err = conn.Exec(ctx, `CREATE TABLE one (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, word text);
			CREATE TABLE two (one bigint NOT NULL REFERENCES one); CREATE TABLE none (id bigint);
			INSERT INTO one (word) VALUES ('a tab	and a \\'), (NULL); INSERT INTO two VALUES (2)`)
		return errors.Join(err, conn.Close(ctx))
	}
	const all = "SELECT 1, id, word FROM one UNION ALL SELECT 2, one, NULL FROM two UNION ALL SELECT 3, id, NULL FROM none ORDER BY 1, 2"
	var url, want string
	for range 3 {
		t.Run("test", func(t *testing.T) {
			u := Reused(t, prepare)
			if url != "" && u != url {
				t.Fatalf("another database, %s after %s", u, url)
			}
			url = u
			conn, err := pgx.Connect(t.Context(), u)
			if err != nil {
				t.Fatal(err)
			}
			name := conn.Config().Database
			got := c.Exec(t, name, all)
			if want == "" {
				want = got
			}
			if got != want || strings.Count(got, "\n") != 2 {
				t.Fatalf("rows:\n%s\nwant\n%s", got, want)
			}
			// The session stays open with a transaction that holds locks.
			for _, sql := range []string{"INSERT INTO one (word) VALUES ('new'); INSERT INTO none VALUES (7)", "BEGIN; DELETE FROM two"} {
				if _, err := conn.Exec(t.Context(), sql); err != nil {
					t.Fatal(err)
				}
			}
			if id := c.Exec(t, name, "SELECT max(id) FROM one"); id != "3" {
				t.Fatalf("the new row has id %s, want 3: its sequence was not reset", id)
			}
		})
	}
}

func TestClusterKeepsWhatIsCommitted(t *testing.T) {
	t.Parallel()
	c := Start(t, Options{Settings: map[string]string{"max_connections": "17"}})
	db := c.NewDatabase(t)
	c.Exec(t, db, "CREATE TABLE kept (id int); INSERT INTO kept VALUES (1)")
	for _, how := range []How{Fast, Immediate} {
		c.Restart(t, how)
		if got := c.Exec(t, db, "SELECT id FROM kept"); got != "1" {
			t.Errorf("after stop %d: %q", how, got)
		}
	}
	if got := c.Exec(t, db, "SHOW max_connections"); got != "17" {
		t.Errorf("max_connections is %q", got)
	}
	if !strings.Contains(c.Logs(), "automatic recovery in progress") {
		t.Error("the immediate stop was none")
	}

	dump := c.Dump(t, db)
	c.Exec(t, db, "INSERT INTO kept VALUES (2)")
	c.Restore(t, db, dump)
	if got := c.Exec(t, db, "SELECT id FROM kept"); got != "1" {
		t.Errorf("after the restore: %q", got)
	}
}

func TestStandbyIsPromoted(t *testing.T) {
	t.Parallel()
	c := Start(t, Options{})
	s := c.Standby(t)
	timeline := "SELECT timeline_id FROM pg_control_checkpoint()"
	system := "SELECT system_identifier FROM pg_control_system()"
	if got := s.Exec(t, "postgres", "SELECT pg_is_in_recovery()"); got != "t" {
		t.Errorf("in recovery: %q", got)
	}
	c.Stop(t, Immediate)
	s.Promote(t)
	s.Exec(t, "postgres", "CHECKPOINT")
	primary := c
	primary.Start(t)
	if got := s.Exec(t, "postgres", timeline); got != "2" {
		t.Errorf("the timeline is %q", got)
	}
	if a, b := primary.Exec(t, "postgres", system), s.Exec(t, "postgres", system); a != b {
		t.Errorf("system %s became %s", a, b)
	}
}

// Rules of what follows: a test process that has a cluster ends in a bad way. It
// and all that it started hold a pipe open, so that the pipe's end says when
// the last of them is gone.

const endsVariable = "PGTEST_ENDS"

func TestNothingIsLeft(t *testing.T) {
	t.Parallel()
	group := func(sig syscall.Signal) func(*exec.Cmd) error {
		return func(cmd *exec.Cmd) error { return syscall.Kill(-cmd.Process.Pid, sig) }
	}
	for how, end := range map[string]func(*exec.Cmd) error{
		"returns": nil, "exits": nil, "panics": nil,
		"is killed":                     func(cmd *exec.Cmd) error { return cmd.Process.Kill() },
		"is killed with its group":      group(syscall.SIGKILL),
		"is interrupted with its group": group(syscall.SIGINT),
	} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			dir, gone := endOther(t, how, end)
			select {
			case <-gone:
			case <-time.After(patience):
				t.Fatal("something still runs")
			}
			if _, err := os.Stat(dir); !os.IsNotExist(err) {
				t.Errorf("%s: %v", dir, err)
			}
		})
	}
}

// endOther runs another test process to its end. It returns the cluster's folder,
// and a channel that is closed when no process is left.
func endOther(t *testing.T, how string, end func(*exec.Cmd) error) (dir string, gone chan struct{}) {
	t.Helper()
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(os.Args[0], "-test.run", "^TestThatEnds$", "-test.v")
	cmd.Env = append(os.Environ(), endsVariable+"="+how)
	cmd.ExtraFiles = []*os.File{write}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	write.Close()
	gone = make(chan struct{})
	go func() {
		io.Copy(io.Discard, read)
		close(gone)
	}()
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		if at, ok := strings.CutPrefix(lines.Text(), "the cluster is in "); ok {
			dir = at
			break
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "data", "postmaster.pid")); err != nil {
		t.Fatalf("no cluster: %v", err)
	}
	if end != nil {
		if err := end(cmd); err != nil {
			t.Fatal(err)
		}
	}
	io.Copy(io.Discard, out)
	t.Logf("it ended: %v", cmd.Wait())
	return dir, gone
}

// TestThatEnds is the other process's only test.
func TestThatEnds(t *testing.T) {
	how := os.Getenv(endsVariable)
	if how == "" {
		t.Skip("run by TestNothingIsLeft")
	}
	New(t)
	c := Shared(t)
	fmt.Printf("the cluster is in %s\n", c.dir)
	switch how {
	case "returns":
	case "exits":
		os.Exit(3)
	case "panics":
		panic("as asked")
	default:
		select {}
	}
}
