-- A job and what it has of attempts and looks.

-- name: KeyOwner :one
SELECT job_id FROM job_keys WHERE digest = @digest;

-- name: EffectKeyTaken :one
SELECT EXISTS (SELECT 1 FROM effect_keys WHERE digest = @digest);

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

-- name: Snapshots :many
-- Whole jobs, in one statement and so of one moment. The payload is read only on request,
-- because a large one is in a table of its own.
SELECT
    clock_timestamp() /* SQLite: NULL */::timestamptz AS now,
    j.idem_key, j.payload_kind, j.retry,
    j.attempt_timeout, j.delivery, j.labels, j.time_zone, j.reply_to,
    j.fingerprint, j.created_at, j.own_effect_key, j.cool_down, j.skip_if_present, j.trace,
    (CASE WHEN @with_payload::boolean THEN j.payload ELSE ''::bytea END)::bytea AS payload,
    sqlc.embed(s),
    coalesce(CASE WHEN s.attempt > 1 THEN (
        SELECT string_agg(a.number::text, ',') FROM attempts AS a WHERE a.job_id = s.job_id AND a.result = 4
    ) END, '')::text AS earlier_open,
    (CASE WHEN s.attempt > 1 THEN (
        SELECT max(a.fence_at) FROM attempts AS a WHERE a.job_id = s.job_id AND a.result = 4 AND NOT a.peer_ended
    ) END)::timestamptz AS earlier_fence,
    coalesce(e.attempt, 0)::bigint AS effect_attempt, coalesce(e.round, 0)::bigint AS effect_round,
    coalesce(e.proof, 0)::smallint AS effect_proof, coalesce(e.external_id, '')::text AS effect_id,
    coalesce(e.external_url, '')::text AS effect_url, e.at AS effect_at, e.shared_with AS effect_shared_with,
    coalesce(r.ruling, 0)::smallint AS ruling, coalesce(r.actor, '')::text AS ruling_actor,
    coalesce(r.note, '')::text AS ruling_note, r.at AS ruling_at
FROM jobs AS j
JOIN job_head AS s ON s.job_id = j.id
LEFT JOIN effects AS e ON e.job_id = s.job_id AND s.state = 8 AND s.effect_at IS NULL
LEFT JOIN resolutions AS r ON r.id = s.resolution_id
WHERE j.id = ANY (@ids::uuid[]);

-- name: DueJobs :many
-- The jobs of a runnable row that are due, with their requests; of what was armed before, only
-- its existence is known. PostgreSQL locks them, of several rows (see its LockDue).
SELECT
    s.job_id, s.project, s.connection_id, j.schedule_id, s.hold_key, s.state, s.version, s.attempt, s.round, s.failures,
    s.claims, s.looks, s.negatives, s.misses, s.schedule_time, s.unasked, s.start_window /* SQLite: j.start_window */, s.wait_window, s.start_deadline, s.keep_trying, s.class, s.cancel_asked_at,
    s.error_kind, s.error_message, s.error_status, s.error_at, coalesce(s.resolution_id, 0)::bigint AS resolution_id,
    j.idem_key, j.payload_kind, j.retry, j.attempt_timeout, j.delivery, j.labels,
    j.time_zone, j.reply_to, j.fingerprint, j.created_at, j.payload, j.own_effect_key, j.cool_down, j.skip_if_present, j.trace
FROM job_state AS s JOIN jobs AS j ON j.id = s.job_id
WHERE s.connection_id = @connection_id AND s.hold_key = @hold_key
    AND s.state IN (1, 6) AND s.waits_for IS NULL AND s.next_at <= @now AND s.start_deadline > @now
ORDER BY s.next_at LIMIT @max_rows;

-- name: OpenNotices :many
-- The notices under way by connections, those that are due first before others.
SELECT s.job_id, s.connection_id, s.hold_key, s.state, s.next_at, s.start_deadline
FROM subscriptions AS n JOIN job_state AS s ON s.job_id = n.open_job
WHERE n.connection_id = ANY (@connections::uuid[]) AND n.open_job IS NOT NULL AND s.state < 7
ORDER BY s.next_at;
