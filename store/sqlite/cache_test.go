package sqlite

import (
	"context"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/store"
)

// checkCache compares what the writer remembers with the rows.
func checkCache(t *testing.T, s *Store) {
	t.Helper()
	_, err := write(t.Context(), s, "check", func(ctx context.Context, tx *tx) (int, error) {
		c := tx.w.cache
		if got := c.underWay; got != nil {
			all, err := tx.q.InFlight(ctx)
			if err != nil {
				return 0, err
			}
			want := make(map[job.ID]int64)
			for _, id := range all {
				want[toID(id)]++
			}
			maps.DeleteFunc(got, func(_ job.ID, n int64) bool { return n == 0 })
			if !maps.Equal(got, want) {
				t.Errorf("under way: remembered %v, is %v", got, want)
			}
		}
		for id, h := range c.held {
			row, err := tx.q.GetJob(ctx, fromID(id))
			if err != nil {
				return 0, err
			}
			marks, err := tx.view().marks(ctx, fromID(id))
			if err != nil {
				return 0, err
			}
			// Statuses and marks are compared as a decision sees them.
			if got, want := toStatus(h.st), toStatus(row.JobState); got != want {
				t.Errorf("job %s: remembered %+v, is %+v", id, got, want)
			}
			if !slices.Equal(h.marks, marks) {
				t.Errorf("attempts of %s: remembered %+v, are %+v", id, h.marks, marks)
			}
		}
		return 0, nil
	})
	must(t, err)
}

func TestTheWriterRemembersWhatIsThere(t *testing.T) {
	s := mustOpen(t, Options{Path: testPath(t), Now: frozen})
	conn := mustConnect(t, s)
	mustCreate(t, s, newJob(conn), newJob(conn), newJob(conn), newJob(conn))
	got := mustClaim(t, s, 3)
	checkCache(t, s)
	renewed, err := s.Renew(t.Context(), time.Hour, []store.LeaseRef{{Job: got[0].ID, Token: got[0].ClaimToken}})
	must(t, err)
	if !renewed[0] {
		t.Error("not renewed")
	}
	checkCache(t, s)
	armed := mustArm(t, s, got...)
	checkCache(t, s)
	must(t, s.SaveHandle(t.Context(), got[0].ID, 1, "handle"))
	checkCache(t, s)
	// The second change is refused late, so the group runs a second time.
	changes := []store.Change{success(t, armed[0].Snapshot), success(t, armed[1].Snapshot), success(t, armed[2].Snapshot)}
	changes[1].Decision.Round = 0
	out, err := s.Apply(t.Context(), changes)
	must(t, err)
	must(t, out[0].Err)
	wantErr(t, out[1].Err, store.ErrIllegal)
	must(t, out[2].Err)
	checkCache(t, s)
	must(t, s.Quarantine(t.Context(), "a test"))
	_, err = s.Claim(t.Context(), store.ClaimParams{Worker: "w", Lease: time.Minute, Limit: 1})
	wantErr(t, err, store.ErrQuarantined)
	must(t, s.Release(t.Context()))
	checkCache(t, s)
	if got := mustClaim(t, s, 10); len(got) != 1 {
		t.Errorf("%d jobs claimed, want 1", len(got))
	}
	checkCache(t, s)
}

func TestSubject(t *testing.T) {
	for query, want := range map[string][2]string{
		"-- name: A :exec\nUPDATE OR FAIL job_state SET x = 1":        {"A", "job_state"},
		"-- name: B :execrows\nINSERT OR FAIL INTO jobs (\n id) ...":  {"B", "jobs"},
		"-- name: C :exec\nINSERT INTO meta (id) VALUES (1)":          {"C", "meta"},
		"-- name: D :exec\nDELETE FROM open_intents WHERE job_id = ?": {"D", "open_intents"},
		"-- name: E :exec\nUPDATE connections SET x = 1":              {"E", "connections"},
		"INSERT INTO projects (id) VALUES (?)":                        {"", "projects"},
		"ROLLBACK":                                                    {"", ""},
	} {
		if name, table := subject(query); name != want[0] || table != want[1] {
			t.Errorf("%q: %q, %q", query, name, table)
		}
	}
}
