-- The clock: what is believed, and what a step changes that the other engine stores in
-- another way. store/sqlstore has the other changes of a step, and explains its times.

-- name: GetClock :one
SELECT * FROM clock WHERE id = 1;

-- name: SaveClock :exec
INSERT INTO clock (id, boot_id, at, boot, since, off, floor) VALUES (1, ?, ?, ?, ?, ?, ?)
ON CONFLICT (id) DO UPDATE SET
    boot_id = excluded.boot_id, at = excluded.at, boot = excluded.boot, since = excluded.since, off = excluded.off, floor = excluded.floor;

-- name: BeginStep :exec
UPDATE clock SET stepping = 1, steps = steps + 1, moved = moved + CAST(@by AS INTEGER) WHERE id = 1;

-- name: EndStep :exec
UPDATE clock SET stepping = 0 WHERE id = 1;

-- name: StepAttempts :exec
-- Of jobs that have not ended, and of those that a client's retry would restart.
UPDATE job_state SET
    armed_at = armed_at + CAST(@by AS INTEGER), send_deadline = send_deadline + CAST(@by AS INTEGER),
    answer_deadline = answer_deadline + CAST(@by AS INTEGER), fence_at = fence_at + CAST(@by AS INTEGER)
WHERE attempt > 0 AND armed_at <> CAST(@unknown AS INTEGER) AND (fence_at > CAST(@over AS INTEGER) OR state BETWEEN 2 AND 7);

-- name: ForgetKeyAges :exec
-- Class 1 is KEYED.
UPDATE job_state SET armed_at = CAST(@unknown AS INTEGER)
WHERE attempt > 0 AND state IN (2, 3, 5, 6, 7) AND class = 1;

-- name: StepBuckets :exec
UPDATE connections SET bucket_at = bucket_at + CAST(@by AS INTEGER) WHERE bucket_at > 0;
