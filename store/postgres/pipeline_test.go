//go:build unix

package postgres

import (
	"context"
	"errors"
	"testing"

	"github.com/fireonce/fireonce/gen/pgdb"
	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/store"
)

// Of statements that are sent together, those behind a failed one do not run, and nothing of
// the transaction is written.
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
	// The connection is usable again.
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

// The database refuses what a foreign key would refuse, for every writer.
func TestReferences(t *testing.T) {
	f := newFleet(t, 1)
	conn := f.connect()
	snap := f.sending(1, conn)[0]
	unknown := f.sending(1, conn)[0]
	if _, err := apply(f.stores[0], unknown, answerOf(unknown, job.ResultUnknown)); err != nil {
		t.Fatal(err)
	}
	f.submit(1, conn)
	// again is what another arm writes beside the attempt.
	const again = "state = 3, version = version + 1, position = position + 1, next_at = now(), claim_token = NULL, claims = 0"
	for name, sql := range map[string]string{
		"an effect of no job":           `INSERT INTO effects (job_id, account, namespace, external_id, external_url, attempt, round, proof, at) VALUES (gen_random_uuid(), '', '', '', '', 1, 1, 1, now())`,
		"a second live intent":          `UPDATE job_state SET ` + again + ` WHERE state = 3`,
		"a second attempt too early":    `UPDATE job_state SET ` + again + `, attempt = attempt + 2, result = 0 WHERE state = 5`,
		"another key while one is open": `UPDATE job_state SET ` + again + `, attempt = attempt + 1, effect_key = 'other', result = 0 WHERE state = 5`,
		"the same token again":          `UPDATE job_state SET ` + again + `, attempt = attempt + 1, result = 0 WHERE state = 5`,
		"an attempt that has ended":     `UPDATE job_state SET ` + again + `, attempt = attempt + 1, arm_token = gen_random_uuid() WHERE state = 5`,
		"an attempt without a token":    `UPDATE job_state SET arm_token = NULL WHERE state = 5`,
		"another token":                 `UPDATE job_state SET arm_token = gen_random_uuid() WHERE state = 5`,
		"another effect key":            `UPDATE job_state SET effect_key = 'other' WHERE state = 5`,
		"other bytes":                   `UPDATE job_state SET request_digest = 'other' WHERE state = 5`,
		"an earlier fence":              `UPDATE job_state SET fence_at = fence_at - interval '1 second' WHERE state = 5`,
		"an outcome forgotten":          `UPDATE job_state SET result = 0 WHERE state = 5`,
		"a token of another job":        `UPDATE job_state AS s SET arm_token = (SELECT arm_token FROM job_state WHERE state = 3) WHERE state = 5`,
		"a state of no job": `INSERT INTO job_state (job_id, project, connection_id, hold_key, state, version, position, schedule_time, start_window, start_deadline, next_at, class, updated_at, state_since, history)
			SELECT gen_random_uuid(), project, connection_id, hold_key, 1, 1, 1, now(), 0, now(), now(), class, now(), now(), history FROM job_state`,
		"a job whose attempt stays": `DELETE FROM jobs WHERE id = (SELECT job_id FROM job_state WHERE attempt = 1 LIMIT 1)`,
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
	if n := f.count("SELECT count(*) FROM every_attempt WHERE job_id = $1", snap.ID); n != 1 {
		t.Errorf("%d attempts", n)
	}
}
