//go:build unix

package postgres

import (
	"context"
	"errors"
	"testing"

	"github.com/fireonce/fireonce/gen/pgdb"
	"github.com/fireonce/fireonce/store"
)

// Of statements that are sent together, those behind one that fails are not run,
// and nothing of the transaction is written.
func TestPipelineStops(t *testing.T) {
	f := newFleet(t, 1)
	exec := func(tx *tx, sql string, seen *bool) {
		tx.queue(t.Context(), func(ctx context.Context, db pgdb.DBTX) error {
			_, err := db.Exec(ctx, sql)
			*seen = *seen || err == nil
			return err
		})
	}
	var before, behind bool
	_, err := write(t.Context(), f.stores[0], "test", func(ctx context.Context, tx *tx) (struct{}, error) {
		exec(tx, "UPDATE projects SET display_name = 'before'", &before)
		exec(tx, "SELECT all_written(1, 2)", new(bool))
		exec(tx, "UPDATE projects SET display_name = 'behind'", &behind)
		return struct{}{}, tx.flush(ctx)
	})
	if !errors.Is(err, store.ErrIllegal) {
		t.Errorf("the flush ended with %v", err)
	}
	if !before || behind {
		t.Errorf("the statement before ran: %v; the one behind: %v", before, behind)
	}
	if n := f.count("SELECT count(*) FROM projects WHERE display_name IN ('before', 'behind')"); n != 0 {
		t.Error("something was written")
	}
	// The connection is as good as new.
	f.submit(1, f.connect())
}

// What a transaction leaves in its queue is sent before its COMMIT.
func TestPipelineEnds(t *testing.T) {
	f := newFleet(t, 1)
	_, err := write(t.Context(), f.stores[0], "test", func(ctx context.Context, tx *tx) (struct{}, error) {
		tx.queue(ctx, func(ctx context.Context, db pgdb.DBTX) error {
			_, err := db.Exec(ctx, "UPDATE projects SET display_name = 'left'")
			return err
		})
		return struct{}{}, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if n := f.count("SELECT count(*) FROM projects WHERE display_name = 'left'"); n != 1 {
		t.Error("it was not written")
	}
}

// What a foreign key would refuse is refused, by whomever it is written.
func TestReferences(t *testing.T) {
	f := newFleet(t, 1)
	conn := f.connect()
	snap := f.sending(1, conn)[0]
	f.submit(1, conn)
	for name, sql := range map[string]string{
		"an effect of no job":           `INSERT INTO effects (job_id, account, namespace, external_id, external_url, attempt, round, proof, at) VALUES (gen_random_uuid(), '', '', '', '', 1, 1, 1, now())`,
		"an attempt of no job":          `INSERT INTO attempts SELECT gen_random_uuid(), 1, 1, gen_random_uuid(), worker, claimed_at, armed_at, 0, connection_id, send_deadline, answer_deadline, fence_at, effect_key, request_digest, 1, '', '', '', NULL, 0, 0, '', 0, 0, NULL, NULL, frozen FROM attempts`,
		"a second attempt too early":    `INSERT INTO attempts SELECT job_id, 3, 1, gen_random_uuid(), worker, claimed_at, armed_at, NULL, NULL, send_deadline, answer_deadline, fence_at, effect_key, request_digest, 1, '', '', '', NULL, 2, 0, '', 0, 0, NULL, NULL, frozen FROM attempts`,
		"an arm token again":            `INSERT INTO attempts SELECT s.job_id, 1, 1, a.arm_token, a.worker, a.claimed_at, armed_at, 0, a.connection_id, send_deadline, answer_deadline, fence_at, effect_key, request_digest, 1, '', '', '', NULL, 0, 0, '', 0, 0, NULL, NULL, frozen FROM attempts AS a, job_state AS s WHERE s.state = 1`,
		"another key while one is open": `INSERT INTO attempts SELECT job_id, 2, 1, gen_random_uuid(), worker, claimed_at, armed_at, NULL, NULL, send_deadline, answer_deadline, fence_at, 'other', request_digest, 1, '', '', '', NULL, 2, 0, '', 0, 0, NULL, NULL, frozen FROM attempts`,
		"a second live intent":          `INSERT INTO attempts SELECT job_id, 2, 1, gen_random_uuid(), worker, claimed_at, armed_at, NULL, NULL, send_deadline, answer_deadline, fence_at, effect_key, request_digest, 1, '', '', '', NULL, 0, 0, '', 0, 0, NULL, NULL, frozen FROM attempts`,
		"a state of no job": `INSERT INTO job_state (job_id, project, connection_id, hold_key, state, version, position, schedule_time, start_window, start_deadline, next_at, class, updated_at, state_since, history)
			SELECT gen_random_uuid(), project, connection_id, hold_key, 1, 1, 1, now(), 0, now(), now(), class, now(), now(), history FROM job_state`,
		"a job whose attempt stays": `DELETE FROM jobs WHERE id = (SELECT job_id FROM job_state WHERE attempt = 1)`,
		"a job whose state stays":   `DELETE FROM jobs WHERE id = (SELECT job_id FROM job_state WHERE attempt = 0)`,
	} {
		_, err := write(t.Context(), f.stores[0], name, func(ctx context.Context, tx *tx) (struct{}, error) {
			_, err := tx.conn.Exec(ctx, sql)
			return struct{}{}, err
		})
		if !errors.Is(err, store.ErrIllegal) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if n := f.count("SELECT count(*) FROM attempts WHERE job_id = $1", fromID(snap.ID)); n != 1 {
		t.Errorf("%d attempts", n)
	}
}
