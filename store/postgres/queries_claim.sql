-- Claims, looks and leases, and what is due. The arrays of one query have one length: each is
-- a column of the batch's rows. The zero time, the year 1, stands for NULL in them.

-- jobs, locked

-- name: LockJobs :many
-- These jobs, and those that wait for some of them. Every transaction locks in this order.
SELECT * FROM job_head
WHERE job_id = ANY (@ids::uuid[]) OR waits_for = ANY (@notified::uuid[])
ORDER BY job_id FOR NO KEY UPDATE;

-- name: LockFree :many
-- After other locks of the batch, so it does not wait.
SELECT * FROM job_head WHERE job_id = ANY (@ids::uuid[])
ORDER BY job_id FOR NO KEY UPDATE SKIP LOCKED;

-- name: AttemptViews :many
-- The views of earlier attempts.
SELECT job_id, number, round, result, armed_at, fence_at, peer_ended, handle, effect_key, request_digest
FROM attempts WHERE job_id = ANY (@ids::uuid[])
ORDER BY job_id, number;

-- claims

-- What is due at a time, or, where that is NULL, at the clock of the server: three statements
-- with a BEGIN, which know no time of the process. Connections and projects that the worker has
-- no room for are left out.

-- name: TakeClaimLocks :many
-- Locks the connections that have due jobs and that no other claim serves at this moment.
SELECT connection_id, bucket_at FROM connection_claims
WHERE connection_id = ANY (ARRAY(
    SELECT r.connection_id FROM connection_ready AS r
    WHERE r.runnable_at <= coalesce(sqlc.narg('at')::timestamptz, (SELECT clock_timestamp() + sqlc.arg('lead')::interval))
        AND r.connection_id <> ALL (@full_connections::uuid[])
        AND (cardinality(@full_projects::text[]) = 0 OR NOT EXISTS (
            SELECT 1 FROM connections AS x WHERE x.id = r.connection_id AND x.project = ANY (@full_projects::text[])
        ))
    ORDER BY r.runnable_at, r.connection_id, r.hold_key LIMIT @max_rows
))
ORDER BY connection_id FOR NO KEY UPDATE SKIP LOCKED;

-- name: RunnableRows :many
SELECT r.connection_id, r.hold_key FROM connection_ready AS r
WHERE r.runnable_at <= coalesce(sqlc.narg('at')::timestamptz, (SELECT clock_timestamp() + sqlc.arg('lead')::interval))
    AND r.connection_id <> ALL (@full_connections::uuid[])
    AND (cardinality(@full_projects::text[]) = 0 OR NOT EXISTS (
        SELECT 1 FROM connections AS x WHERE x.id = r.connection_id AND x.project = ANY (@full_projects::text[])
    ))
ORDER BY r.runnable_at, r.connection_id, r.hold_key LIMIT @max_rows;

-- name: RunnableConnections :many
-- As Connections returns them, and how many of their jobs are under way. Run it after the
-- claim locks are taken, so that other claims' jobs are counted.
SELECT
    sqlc.embed(c),
    h.auth_hold_at::timestamptz AS auth_hold_at,
    coalesce(h.auth_hold_reason, '')::text AS auth_hold_reason,
    coalesce(h.auth_hold_cause, 0)::smallint AS auth_hold_cause,
    h.limited_until::timestamptz AS limited_until,
    (SELECT count(*) FROM job_state AS s WHERE s.connection_id = c.id AND s.state IN (2, 3)) AS busy
FROM connections AS c
LEFT JOIN LATERAL (
    SELECT
        min(r.auth_hold_at) AS auth_hold_at,
        (array_agg(r.auth_hold_reason ORDER BY r.auth_hold_at, r.hold_key) FILTER (WHERE r.auth_hold_at IS NOT NULL))[1] AS auth_hold_reason,
        (array_agg(r.auth_hold_cause ORDER BY r.auth_hold_at, r.hold_key) FILTER (WHERE r.auth_hold_at IS NOT NULL))[1] AS auth_hold_cause,
        max(r.rate_limited_until) AS limited_until
    FROM connection_ready AS r
    WHERE r.connection_id = c.id AND (r.auth_hold_at IS NOT NULL OR r.rate_limited_until > 'epoch')
) AS h ON true
WHERE c.id = ANY (ARRAY(
    SELECT d.connection_id FROM connection_ready AS d
    WHERE d.runnable_at <= coalesce(sqlc.narg('at')::timestamptz, (SELECT clock_timestamp() + sqlc.arg('lead')::interval))
        AND d.connection_id <> ALL (@full_connections::uuid[])
        AND (cardinality(@full_projects::text[]) = 0 OR NOT EXISTS (
            SELECT 1 FROM connections AS x WHERE x.id = d.connection_id AND x.project = ANY (@full_projects::text[])
        ))
    ORDER BY d.runnable_at, d.connection_id, d.hold_key LIMIT @max_rows
));

-- name: TakeFreeClaimLocks :many
-- Locks those of these connections that no claim serves at this moment.
SELECT connection_id, bucket_at FROM connection_claims
WHERE connection_id = ANY (@ids::uuid[])
ORDER BY connection_id FOR NO KEY UPDATE SKIP LOCKED;

-- name: DueAmong :many
-- Of these runnable rows, those that are due.
WITH u AS (SELECT unnest(@connections::uuid[]) AS connection_id, unnest(@hold_keys::text[]) AS hold_key)
SELECT r.connection_id, r.hold_key
FROM u JOIN connection_ready AS r ON r.connection_id = u.connection_id AND r.hold_key = u.hold_key
WHERE r.runnable_at <= @now;

-- name: AwaitClaimLock :one
SELECT connection_id, bucket_at FROM connection_claims
WHERE connection_id = @id FOR NO KEY UPDATE;

-- name: Bounds :many
SELECT c.id, c.max_in_flight, c.max_per_minute,
    (SELECT count(*) FROM job_state AS s WHERE s.connection_id = c.id AND s.state IN (2, 3)) AS busy
FROM connections AS c WHERE c.id = ANY (@ids::uuid[]);

-- name: LockDue :many
-- With their requests; of what was armed before, only its existence is known. A row is locked
-- in its present state, but its request is read as it was when the statement began. A job
-- that was changed in between is left for the next claim.
WITH want AS (
    SELECT unnest(@connections::uuid[]) AS connection_id, unnest(@hold_keys::text[]) AS hold_key,
        unnest(@most::bigint[]) AS most
)
SELECT
    d.job_id, d.project, d.connection_id, d.schedule_id, d.hold_key, d.state, d.version, d.attempt, d.round, d.failures,
    d.claims, d.looks, d.negatives, d.misses, d.schedule_time, d.unasked, d.start_window, d.wait_window, d.start_deadline, d.keep_trying, d.class, d.cancel_asked_at,
    d.error_kind, d.error_message, d.error_status, d.error_at, coalesce(d.resolution_id, 0)::bigint AS resolution_id,
    j.idem_key, j.payload_kind, j.retry, j.attempt_timeout, j.delivery, j.labels,
    j.time_zone, j.reply_to, j.fingerprint, j.created_at, j.payload, j.own_effect_key, j.cool_down, j.skip_if_present, j.trace
FROM want AS w CROSS JOIN LATERAL (
    SELECT
        s.job_id, s.project, s.connection_id, s.schedule_id, s.hold_key, s.state, s.version, s.attempt, s.round, s.failures,
        s.claims, s.looks, s.negatives, s.misses, s.schedule_time, s.unasked, s.start_window, s.wait_window, s.start_deadline, s.keep_trying, s.class, s.cancel_asked_at,
        s.error_kind, s.error_message, s.error_status, s.error_at, s.resolution_id
    FROM job_state AS s
    WHERE s.connection_id = w.connection_id AND s.hold_key = w.hold_key
        AND s.state IN (1, 6) AND s.waits_for IS NULL
        AND s.next_at <= @now AND s.start_deadline > @now AND s.position < @base
    ORDER BY s.next_at LIMIT w.most FOR NO KEY UPDATE SKIP LOCKED
) AS d JOIN jobs AS j ON j.id = d.job_id
JOIN job_state AS seen ON seen.job_id = d.job_id AND seen.version = d.version;

-- name: LockNotices :many
-- As LockDue, of these jobs. The sign keeps the planner from the index of all runnable jobs.
SELECT
    d.job_id, d.project, d.connection_id, d.schedule_id, d.hold_key, d.state, d.version, d.attempt, d.round, d.failures,
    d.claims, d.looks, d.negatives, d.misses, d.schedule_time, d.unasked, d.start_window, d.wait_window, d.start_deadline, d.keep_trying, d.class, d.cancel_asked_at,
    d.error_kind, d.error_message, d.error_status, d.error_at, coalesce(d.resolution_id, 0)::bigint AS resolution_id,
    j.idem_key, j.payload_kind, j.retry, j.attempt_timeout, j.delivery, j.labels,
    j.time_zone, j.reply_to, j.fingerprint, j.created_at, j.payload, j.own_effect_key, j.cool_down, j.skip_if_present, j.trace
FROM (
    SELECT
        s.job_id, s.project, s.connection_id, s.schedule_id, s.hold_key, s.state, s.version, s.attempt, s.round, s.failures,
        s.claims, s.looks, s.negatives, s.misses, s.schedule_time, s.unasked, s.start_window, s.wait_window, s.start_deadline, s.keep_trying, s.class, s.cancel_asked_at,
        s.error_kind, s.error_message, s.error_status, s.error_at, s.resolution_id
    FROM job_state AS s
    WHERE s.job_id = ANY (@jobs::uuid[]) AND +s.state IN (1, 6) AND s.waits_for IS NULL
        AND s.next_at <= @now AND s.start_deadline > @now AND s.position < @base
    ORDER BY s.next_at FOR NO KEY UPDATE SKIP LOCKED
) AS d JOIN jobs AS j ON j.id = d.job_id
JOIN job_state AS seen ON seen.job_id = d.job_id AND seen.version = d.version;

-- name: ClaimJobs :exec
-- The version stands for all that was due when the jobs were locked. Naming the state again
-- would offer the planner the index of all runnable jobs.
WITH u AS (
    SELECT unnest(@jobs::uuid[]) AS job_id, unnest(@versions::bigint[]) AS version,
        unnest(@tokens::uuid[]) AS token, unnest(@positions::bigint[]) AS position,
        unnest(@histories::bytea[]) AS history
),
claimed AS (
    UPDATE job_state AS s SET
        state = 2, version = s.version + 1, position = u.position, claim_token = u.token,
        claimed_at = @now, worker = @worker, next_at = @lease_end, blocked = '', updated_at = @now,
        history = with_event(s.history, u.history), state_since = @now
    FROM u WHERE s.job_id = u.job_id AND s.version = u.version
    RETURNING s.job_id
)
SELECT all_written(count(job_id), cardinality(@jobs::uuid[])) FROM claimed;

-- name: SetBuckets :exec
WITH u AS (SELECT unnest(@connections::uuid[]) AS connection_id, unnest(@ats::bigint[]) AS at)
UPDATE connection_claims AS c SET bucket_at = u.at FROM u WHERE c.connection_id = u.connection_id;

-- name: CloseClaimLocks :exec
-- Waits for the results that are being written to these connections' jobs, and delays new
-- ones.
SELECT 1 FROM connection_claims
WHERE connection_id = ANY (@ids::uuid[])
ORDER BY connection_id FOR UPDATE;

-- name: LockRunnable :exec
WITH u AS (SELECT unnest(@connections::uuid[]) AS connection_id, unnest(@hold_keys::text[]) AS hold_key)
SELECT 1 FROM connection_ready AS r JOIN u ON u.connection_id = r.connection_id AND u.hold_key = r.hold_key
ORDER BY r.connection_id, r.hold_key FOR NO KEY UPDATE OF r;

-- name: Served :exec
-- The row's remaining jobs are due at the earliest of them; NULL when none is left.
WITH u AS (
    SELECT unnest(@connections::uuid[]) AS connection_id, unnest(@hold_keys::text[]) AS hold_key,
        unnest(@served::boolean[]) AS served, unnest(@saturated::boolean[]) AS saturated,
        unnest(@paced_untils::timestamptz[]) AS paced_until, unnest(@stopped_untils::timestamptz[]) AS stopped_until
)
UPDATE connection_ready AS r SET
    next_at = (
        SELECT s.next_at FROM job_state AS s
        WHERE s.connection_id = r.connection_id AND s.hold_key = r.hold_key
            AND s.state IN (1, 6) AND s.waits_for IS NULL
        ORDER BY s.next_at LIMIT 1
    ),
    served_at = CASE WHEN u.served THEN greatest(r.served_at, @now) ELSE r.served_at END,
    saturated = r.saturated OR u.saturated,
    paced_until = greatest(r.paced_until, u.paced_until), stopped_until = greatest(r.stopped_until, u.stopped_until)
FROM u WHERE u.connection_id = r.connection_id AND u.hold_key = r.hold_key;

-- name: KeepStops :many
-- Those of these stops that have not ended. They do not end before this transaction.
SELECT id FROM stops WHERE id = ANY (@ids::uuid[]) AND ended_at IS NULL ORDER BY id FOR SHARE;

-- leases

-- name: RenewLeases :many
WITH u AS (
    SELECT unnest(@jobs::uuid[]) AS job_id, unnest(@tokens::uuid[]) AS token,
        unnest(@lease_ends::timestamptz[]) AS lease_end
),
held AS MATERIALIZED (
    SELECT s.job_id, u.token, u.lease_end FROM job_state AS s JOIN u ON u.job_id = s.job_id
    ORDER BY s.job_id FOR NO KEY UPDATE OF s
)
UPDATE job_state AS s SET next_at = held.lease_end
FROM held WHERE s.job_id = held.job_id AND s.claim_token = held.token
    AND s.state IN (2, 4, 5) AND s.next_at > @now
RETURNING s.job_id, s.claim_token;
