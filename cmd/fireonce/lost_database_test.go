//go:build failpoints

package main

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/fireonce/fireonce/clients/go/fireoncev1"
	"github.com/fireonce/fireonce/internal/proof/pgtest"
)

// TestLostDatabase deletes the database after a client's request has taken effect. The client
// repeats the request at a server whose new database has the old namespace. The receiver
// dedupes, so there is one effect. In another namespace there are two: that keeps
// installations apart, and shows that the test can fail.
func TestLostDatabase(t *testing.T) {
	t.Parallel()
	for _, d := range deployments {
		t.Run(d.name, func(t *testing.T) {
			t.Parallel()
			to := startHooks(t, true, nil)
			url := d.database(t)
			lost := newCrash(t, d, url, fireoncev1.EffectClass_EFFECT_CLASS_KEYED, to)
			first := lost.sendAll()
			namespace := namespaceOf(t, url)
			deleteDatabase(t, url)

			again := newCrash(t, d, "", fireoncev1.EffectClass_EFFECT_CLASS_KEYED, to)
			again.args = append(again.args, "--namespace", namespace)
			second := again.sendAll()
			for subject, id := range second {
				if id == first[subject] {
					t.Errorf("%s is still job %s: the database was not lost", subject, id)
				}
				if to.Requests(subject) != 2 || to.Effects(subject) != 1 {
					t.Errorf("%s: %d requests and %d effects", subject, to.Requests(subject), to.Effects(subject))
				}
			}

			elsewhere := newCrash(t, d, "", fireoncev1.EffectClass_EFFECT_CLASS_KEYED, to)
			for subject := range elsewhere.sendAll() {
				if to.Effects(subject) != 2 {
					t.Errorf("%s: another installation's request was taken for this one's", subject)
				}
			}
		})
	}
}

// sendAll makes the servers send each job, and returns the jobs' ids by subject. The client
// has only the keys.
func (c *crash) sendAll() map[string]string {
	c.Helper()
	c.jobs = 3
	c.start()
	c.submit()
	h := c.settle(c.jobs)
	c.stop()
	for subject, id := range c.ids {
		if got := h.state(id); got != fireoncev1.JobState_JOB_STATE_SUCCEEDED {
			c.Errorf("%s is %v", subject, got)
		}
	}
	return c.ids
}

// namespaceOf reads the namespace as an operator does.
func namespaceOf(t *testing.T, url string) string {
	t.Helper()
	out, code := command(t, "namespace", "--database", url)
	if code != 0 || strings.TrimSpace(out) == "" {
		t.Fatalf("namespace: exit %d\n%s", code, out)
	}
	return strings.TrimSpace(out)
}

// deleteDatabase removes an SQLite file and the files beside it. A PostgreSQL database need not
// be removed: no server uses it again.
func deleteDatabase(t *testing.T, url string) {
	t.Helper()
	path, is := strings.CutPrefix(url, "sqlite:")
	if !is {
		return
	}
	for _, end := range []string{"", "-wal", "-shm", ".lock"} {
		if err := os.Remove(path + end); err != nil && !os.IsNotExist(err) {
			t.Fatal(err)
		}
	}
}

// TestRestoredAndRepeated takes a backup before a client's request takes effect, and restores
// it afterwards, so that the database does not have the request. The client repeats the
// request, and the operator releases the database. There must be one effect, in the copy's own
// namespace.
func TestRestoredAndRepeated(t *testing.T) {
	t.Parallel()
	for _, d := range deployments {
		t.Run(d.name, func(t *testing.T) {
			t.Parallel()
			to := startHooks(t, true, nil)
			url, aside := aside(t, d)
			c := newCrash(t, d, url, fireoncev1.EffectClass_EFFECT_CLASS_KEYED, to)
			c.start()
			c.connection = c.connect(to.connection())
			c.stop()
			since := time.Now()
			back := aside()
			first := c.sendAll()
			back()

			c.ids = make(map[string]string)
			c.start()
			c.submit() // while the database is quarantined
			if d == onSQLite {
				c.stop()
			}
			out, code := command(t, "recover", "--database", url, "--since", since.Format(time.RFC3339Nano), "--as", "retry")
			if code != 0 || !strings.Contains(out, "is released, in namespace ") {
				t.Fatalf("recover: exit %d\n%s", code, out)
			}
			for subject, id := range c.sendAll() {
				if id == first[subject] || to.Requests(subject) != 2 || to.Effects(subject) != 1 {
					t.Errorf("%s, job %s: %d requests and %d effects", subject, id, to.Requests(subject), to.Effects(subject))
				}
			}
		})
	}
}

// aside makes a database, and a function that moves it to a backup while no server runs.
func aside(t *testing.T, d deployment) (url string, aside func() (back func())) {
	t.Helper()
	if d == onSQLite {
		url = d.database(t)
		return url, func() func() { return copyAside(t, strings.TrimPrefix(url, "sqlite:")) }
	}
	cluster := pgtest.Shared(t)
	database := cluster.NewDatabase(t)
	return cluster.URL(database), func() func() {
		dump := cluster.Dump(t, database)
		return func() { cluster.Restore(t, database, dump) }
	}
}
