-- The description of the database, and what ends with a quarantine.

-- name: Quarantined :one
SELECT quarantined FROM meta WHERE id = 1;

-- name: ReleasedAt :one
SELECT released_at FROM meta WHERE id = 1;

-- name: Quarantine :exec
UPDATE meta SET quarantined = @reason, incarnation = incarnation + 1 WHERE id = 1;

-- name: Release :execrows
UPDATE meta SET quarantined = '', released_at = @now WHERE id = 1 AND quarantined <> '';

-- name: LockSchedules :many
-- All that are not deleted.
SELECT id FROM schedules WHERE state < 4 ORDER BY created_at, id FOR UPDATE;

-- name: HoldSchedules :exec
-- See store.DueSchedule.HeldUntil. Their lost time is not settled: those that fire are decided
-- about now. A queue that does not fire gets a new etag: the cause of its pause is another one.
UPDATE schedules SET
    held_until = @now::timestamptz, revision = revision + 1,
    version = CASE WHEN queued AND state <> 1 THEN version + 1 ELSE version END,
    next_at = CASE WHEN state = 1 THEN @now::timestamptz END, postponed_until = NULL
WHERE id = ANY (@ids::uuid[]);

-- name: LockLooks :many
-- Locks jobs that may be looked at. It waits for transactions that change them.
SELECT job_id FROM job_state WHERE state = 3 OR state = 5 ORDER BY job_id FOR NO KEY UPDATE;

-- name: RaiseFences :exec
-- Treats their newest attempts as armed now, and moves nothing earlier (see store.Admin.Release).
-- No change of the jobs: no version, no event.
UPDATE job_state SET
    peer_ended = FALSE, negatives = 0, claim_token = NULL,
    fence_at = greatest(fence_at, answer_deadline - armed_at + @not_before::timestamptz),
    next_at = greatest(next_at, fence_at, answer_deadline - armed_at + @not_before::timestamptz)
WHERE job_id = ANY (@ids::uuid[]);

-- name: LockNamespace :one
-- Waits for transactions that may arm, and delays new ones.
SELECT namespace, armed_before, quarantined FROM meta WHERE id = 1 FOR UPDATE;

-- name: SetNamespace :exec
UPDATE meta SET namespace = @namespace WHERE id = 1;
