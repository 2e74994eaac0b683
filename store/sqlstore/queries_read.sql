-- A job and what it has of attempts and looks.

-- name: KeyOwner :one
SELECT job_id FROM job_keys WHERE digest = @digest;

-- name: ProjectOf :one
SELECT project FROM job_state WHERE job_id = @job_id;

-- name: Attempts :many
-- In SQLite the newest one is in its job's row only.
SELECT * FROM every_attempt /* SQLite: (
    SELECT * FROM attempts
    UNION ALL
    SELECT
        job_id, attempt AS number, armed_round AS round, arm_token, armed_by AS worker, armed_claimed_at AS claimed_at, armed_at,
        send_deadline, answer_deadline, fence_at, effect_key, request_digest, credential_version, account_identity, watermark,
        handle, span, result, kind, message, http_status, bytes_written, peer_ended, attempt_ended_at AS ended_at, answer, frozen
    FROM job_state WHERE attempt > 0
) */ WHERE job_id = @job_id AND number > @after AND (sqlc.narg('arm_token')::uuid IS NULL OR arm_token = sqlc.narg('arm_token'))
ORDER BY number LIMIT @max_rows;

-- name: Observations :many
-- Newest first, before a number; 0: all.
SELECT * FROM (SELECT o.*, row_number() OVER (ORDER BY o.id) AS number FROM observations AS o WHERE o.job_id = @job_id) AS n
WHERE @before::bigint <= 0 OR n.number < @before ORDER BY n.number DESC LIMIT @max_rows;

-- name: LockJob :one
-- Waits for a transaction that changes the job.
SELECT version FROM job_state WHERE job_id = @job_id FOR NO KEY UPDATE;

-- name: SaveHandle :execrows
UPDATE /* SQLite: UPDATE OR FAIL */ job_state SET handle = @handle::text
WHERE attempt = @number AND state = 3 AND result = 0 AND job_id = @job_id;

-- name: AttemptExists :one
SELECT (@number::bigint BETWEEN 1 AND attempt)::boolean FROM job_state WHERE job_id = @job_id;

-- name: ContentArms :one
SELECT coalesce((SELECT arms FROM content_arms WHERE bucket = @bucket), 0)::bigint;
