-- Results, and the runnable rows that they change. Arrays are as in queries_claim.sql.

-- results

-- name: EffectOwners :many
-- The account that each attempt acted on, the namespace of its objects' ids, and the owner of
-- the object. Attempt 0 is a person's statement about the last attempt. Connection and hold
-- key stand for an unknown account.
WITH u AS (
    SELECT unnest(@jobs::uuid[]) AS job_id, unnest(@attempts::bigint[]) AS attempt,
        unnest(@external_ids::text[]) AS external_id
),
o AS MATERIALIZED (
    SELECT s.job_id, u.external_id, c.connector AS namespace,
        coalesce(nullif(CASE WHEN u.attempt IN (0, s.attempt) THEN s.account_identity ELSE a.account_identity END, ''),
            nullif(c.account_identity, ''), 'connection ' || s.connection_id || ' ' || s.hold_key)::text AS account
    FROM u JOIN job_state AS s ON s.job_id = u.job_id
    JOIN connections AS c ON c.id = s.connection_id
    LEFT JOIN attempts AS a ON a.job_id = u.job_id AND a.number = u.attempt
)
SELECT o.job_id, o.account, o.namespace, e.job_id AS owner, coalesce(e.proof, 0)::smallint AS proof,
    coalesce(e.job_removed, false)::boolean AS owner_removed, coalesce(e.told, false)::boolean AS owner_told
FROM o LEFT JOIN effects AS e ON e.account = o.account AND e.namespace = o.namespace
    AND e.external_id = o.external_id AND e.external_id <> '' AND e.owns_id;

-- name: DropEffects :exec
DELETE FROM effects WHERE job_id = ANY (@ids::uuid[]);

-- name: InsertEffects :exec
-- In the account and the namespace from EffectOwners. If another job got the object
-- meanwhile, the transaction runs again.
WITH u AS (
    SELECT unnest(@jobs::uuid[]) AS job_id, unnest(@external_ids::text[]) AS external_id,
        unnest(@external_urls::text[]) AS external_url, unnest(@owns_ids::boolean[]) AS owns_id,
        unnest(@attempts::bigint[]) AS attempt, unnest(@rounds::bigint[]) AS round,
        unnest(@proofs::smallint[]) AS proof, nullif(unnest(@shared_withs::uuid[]), '00000000-0000-0000-0000-000000000000'::uuid) AS shared_with
),
o AS (
    SELECT u.job_id, u.external_id, u.external_url, u.owns_id, u.attempt, u.round, u.proof, u.shared_with, c.connector AS namespace,
        coalesce(nullif(CASE WHEN u.attempt IN (0, s.attempt) THEN s.account_identity ELSE a.account_identity END, ''),
            nullif(c.account_identity, ''), 'connection ' || s.connection_id || ' ' || s.hold_key)::text AS account
    FROM u JOIN job_state AS s ON s.job_id = u.job_id
    JOIN connections AS c ON c.id = s.connection_id
    LEFT JOIN attempts AS a ON a.job_id = u.job_id AND a.number = u.attempt
),
made AS (
    INSERT INTO effects (
        job_id, account, namespace, external_id, external_url, owns_id, attempt, round, proof, at, shared_with
    )
    SELECT
        o.job_id, o.account, o.namespace, o.external_id, o.external_url, o.owns_id, o.attempt, o.round, o.proof, @now,
        o.shared_with
    FROM o ORDER BY o.account, o.namespace, o.external_id
    ON CONFLICT (account, namespace, external_id) WHERE external_id <> '' AND owns_id DO NOTHING
    RETURNING job_id
)
SELECT none_overtaken(count(job_id), cardinality(@jobs::uuid[])) FROM made;

-- name: CountAnswers :exec
-- Adds the sizes of answers that will be kept to the use of their projects, and subtracts
-- those of the answers that they replace.
WITH u AS (
    SELECT unnest(@jobs::uuid[]) AS job_id, unnest(@numbers::bigint[]) AS number, unnest(@bytes::bigint[]) AS bytes
)
INSERT INTO project_use (project, jobs, bytes)
SELECT
    s.project, 0,
    sum(u.bytes - coalesce(CASE u.number WHEN s.attempt THEN octet_length(s.answer) ELSE octet_length(a.answer) END, 0))::bigint
FROM u JOIN job_state AS s ON s.job_id = u.job_id
LEFT JOIN attempts AS a ON a.job_id = u.job_id AND a.number = u.number
GROUP BY s.project;

-- name: SucceedFirst :many
-- Successes of first attempts without any other data, with the gates that open. If they are
-- alone in their transaction, their claim locks are taken too (see ShareClaimLocks). The
-- items are sorted, so that their rows are locked in the lock order. The state is cast, and
-- the attempt's number is that of the row, so that the planner considers no partial index.
WITH u AS (
    SELECT unnest(@jobs::uuid[]) AS job_id, unnest(@versions::bigint[]) AS version,
        unnest(@positions::bigint[]) AS position, unnest(@histories::bytea[]) AS history,
        unnest(@statuses::bigint[]) AS status, unnest(@bytes::bigint[]) AS bytes, unnest(@messages::text[]) AS message
),
done AS (
    UPDATE job_state AS s SET
        state = 8, version = s.version + 1, position = u.position, next_at = NULL,
        effect_attempt = 1, effect_round = 1, effect_at = @now, updated_at = @now, ended_at = @now,
        history = with_event(s.history, u.history), state_since = @now,
        result = 1, message = u.message, http_status = u.status, bytes_written = greatest(s.bytes_written, u.bytes),
        attempt_ended_at = @now, frozen = NULL
    FROM u WHERE s.job_id = u.job_id AND s.version = u.version AND s.state::integer = 3 AND s.attempt = 1 AND s.result = 0
        AND s.round = 1 AND s.failures = 0 AND s.claims = 0 AND s.looks = 0 AND s.negatives = 0 AND s.misses = 0
        AND s.blocked = '' AND s.waits_for IS NULL AND s.resolution_id IS NULL AND s.position < @base
    RETURNING s.job_id, s.project, s.connection_id, s.schedule_id, s.hold_key, s.version, s.schedule_time, s.unasked, s.start_window,
        s.start_deadline, s.keep_trying, s.worker, s.class, s.cancel_asked_at, s.error_kind, s.error_message, s.error_status, s.error_at,
        s.armed_at, s.fence_at, s.handle, s.effect_key
),
opened AS (
    DELETE FROM open_intents AS o USING done AS d WHERE d.class <> 1 AND o.job_id = d.job_id
),
locks AS MATERIALIZED (
    SELECT connection_id FROM connection_claims
    WHERE @alone::boolean AND connection_id = ANY (ARRAY(SELECT d.connection_id FROM done AS d))
    ORDER BY connection_id FOR KEY SHARE
)
SELECT job_id, project, connection_id, schedule_id, hold_key, version, schedule_time, unasked, start_window, start_deadline, keep_trying,
    worker, class, cancel_asked_at, error_kind, error_message, error_status, error_at, armed_at, fence_at, handle::text AS handle, effect_key::text AS effect_key,
    (SELECT count(*) FROM locks) AS locks
FROM done;

-- name: AfterSuccess :one
-- Reports whether a job waits for one of these jobs, also one that came before they were
-- locked, and whether a connection may be saturated.
SELECT EXISTS (SELECT 1 FROM job_state AS w WHERE w.waits_for = ANY (@done::uuid[]))::boolean AS awaited,
    EXISTS (SELECT 1 FROM connection_ready AS r WHERE r.saturated)::boolean AS saturated;

-- name: SetStates :one
-- Every change of a job except claims, arms and leases, with the result of its newest attempt
-- (0: none), and the gates that it opens. It reports whether a job that came after the
-- waiting ones were locked waits for a job that has ended (to lock it now would break the
-- lock order), and whether a freed connection was saturated.
WITH u AS (
    SELECT unnest(@jobs::uuid[]) AS job_id, unnest(@states::smallint[]) AS state,
        unnest(@versions::bigint[]) AS version, unnest(@positions::bigint[]) AS position,
        unnest(@rounds::bigint[]) AS round, unnest(@failures::bigint[]) AS failures,
        unnest(@claims::bigint[]) AS claims, unnest(@looks::bigint[]) AS looks,
        unnest(@negatives::bigint[]) AS negatives, unnest(@misses::bigint[]) AS misses, unnest(@hold_keys::text[]) AS hold_key,
        unnest(@schedule_times::timestamptz[]) AS schedule_time, unnest(@unaskeds::boolean[]) AS unasked,
        unnest(@start_windows::bigint[]) AS start_window,
        unnest(@start_deadlines::timestamptz[]) AS start_deadline, unnest(@keep_tryings::bigint[]) AS keep_trying,
        unnest(@next_ats::timestamptz[]) AS next_at, nullif(unnest(@claim_tokens::uuid[]), '00000000-0000-0000-0000-000000000000'::uuid) AS claim_token,
        unnest(@cancels::timestamptz[]) AS cancel_asked_at, unnest(@blocked::text[]) AS blocked,
        unnest(@error_kinds::smallint[]) AS error_kind, unnest(@error_messages::text[]) AS error_message,
        unnest(@error_statuses::bigint[]) AS error_status, unnest(@error_ats::timestamptz[]) AS error_at,
        unnest(@resolutions::bigint[]) AS resolution_id, unnest(@updated_ats::timestamptz[]) AS updated_at,
        unnest(@ended_ats::timestamptz[]) AS ended_at,
        unnest(@effect_attempts::bigint[]) AS effect_attempt, unnest(@effect_rounds::bigint[]) AS effect_round,
        unnest(@effect_ats::timestamptz[]) AS effect_at,
        unnest(@histories::bytea[]) AS history,
        unnest(@results::smallint[]) AS result, unnest(@settles::boolean[]) AS settles, unnest(@kinds::smallint[]) AS kind,
        unnest(@messages::text[]) AS message, unnest(@statuses::bigint[]) AS status, unnest(@bytes::bigint[]) AS bytes,
        unnest(@handles::text[]) AS handle, unnest(@answers::bytea[]) AS answer, unnest(@peer_endeds::boolean[]) AS peer_ended
),
changed AS (
    UPDATE job_state AS s SET
        state = u.state, version = u.version, position = u.position, round = u.round,
        failures = u.failures, claims = u.claims, looks = u.looks, negatives = u.negatives, misses = u.misses,
        hold_key = u.hold_key, schedule_time = u.schedule_time, unasked = u.unasked,
        start_window = u.start_window, start_deadline = u.start_deadline, keep_trying = u.keep_trying,
        next_at = nullif(u.next_at, '0001-01-01 00:00:00+00'::timestamptz), claim_token = u.claim_token,
        cancel_asked_at = nullif(u.cancel_asked_at, '0001-01-01 00:00:00+00'::timestamptz),
        blocked = u.blocked, error_kind = u.error_kind, error_message = u.error_message,
        error_status = u.error_status, error_at = nullif(u.error_at, '0001-01-01 00:00:00+00'::timestamptz),
        resolution_id = nullif(u.resolution_id, 0), updated_at = u.updated_at,
        ended_at = nullif(u.ended_at, '0001-01-01 00:00:00+00'::timestamptz),
        effect_attempt = nullif(u.effect_attempt, 0), effect_round = nullif(u.effect_round, 0),
        effect_at = nullif(u.effect_at, '0001-01-01 00:00:00+00'::timestamptz),
        history = with_event(s.history, u.history), state_since = CASE WHEN u.state = s.state THEN s.state_since ELSE @now END,
        result = CASE u.result WHEN 0 THEN s.result ELSE u.result END,
        attempt_ended_at = CASE u.result WHEN 0 THEN s.attempt_ended_at ELSE coalesce(s.attempt_ended_at, @now) END,
        failure_kind = CASE WHEN u.settles THEN u.kind ELSE s.failure_kind END,
        message = CASE WHEN u.settles THEN u.message ELSE s.message END,
        http_status = CASE WHEN u.settles THEN u.status ELSE s.http_status END,
        bytes_written = CASE WHEN u.settles THEN greatest(s.bytes_written, u.bytes) ELSE s.bytes_written END,
        peer_ended = CASE WHEN u.settles THEN u.peer_ended ELSE s.peer_ended END,
        handle = CASE u.handle WHEN '' THEN s.handle ELSE u.handle END, answer = coalesce(u.answer, s.answer),
        frozen = CASE u.state WHEN 8 THEN NULL ELSE s.frozen END
    FROM u WHERE s.job_id = u.job_id AND s.version = u.version - 1
    RETURNING s.job_id
),
opened AS (
    DELETE FROM open_intents WHERE job_id = ANY (@gates::uuid[])
)
SELECT all_written(count(c.job_id), cardinality(@jobs::uuid[])) AS written,
    EXISTS (SELECT 1 FROM job_state AS w
        WHERE w.waits_for = ANY (@notified::uuid[]) AND w.job_id <> ALL (@waiting::uuid[]))::boolean AS newcomers,
    EXISTS (SELECT 1 FROM connection_ready AS r
        WHERE r.connection_id = ANY (@freed::uuid[]) AND r.saturated)::boolean AS saturated
FROM changed AS c;

-- runnable rows

-- name: ShareClaimLocks :exec
-- Prevents claims from counting jobs under way while one of them ends.
SELECT 1 FROM connection_claims
WHERE connection_id = ANY (@ids::uuid[])
ORDER BY connection_id FOR KEY SHARE;

-- name: SaturatedRows :many
SELECT connection_id, hold_key FROM connection_ready
WHERE connection_id = ANY (@ids::uuid[]) AND saturated;

-- name: KeepForNewRows :exec
-- Locks the connections that get a new runnable row, before any runnable row is locked (see
-- lock_order.go). If every row exists, as usual, it locks nothing.
SELECT 1 FROM connections
WHERE id = ANY (ARRAY(
    SELECT u.connection_id
    FROM (SELECT unnest(@connections::uuid[]) AS connection_id, unnest(@hold_keys::text[]) AS hold_key) AS u
    WHERE NOT EXISTS (
        SELECT 1 FROM connection_ready AS r WHERE r.connection_id = u.connection_id AND r.hold_key = u.hold_key
    )
))
ORDER BY id FOR KEY SHARE;

-- name: MakeRunnable :exec
-- Locks each row in the lock order, lowers its due time (NULL: no change), and ends its
-- saturation when its connection has capacity again.
INSERT INTO connection_ready AS r (connection_id, hold_key, next_at, paused)
SELECT u.connection_id, u.hold_key, u.next_at, c.paused_at IS NOT NULL
FROM (
    SELECT unnest(@connections::uuid[]) AS connection_id, unnest(@hold_keys::text[]) AS hold_key,
        nullif(unnest(@next_ats::timestamptz[]), '0001-01-01 00:00:00+00'::timestamptz) AS next_at
) AS u JOIN connections AS c ON c.id = u.connection_id
ORDER BY u.connection_id, u.hold_key
ON CONFLICT (connection_id, hold_key) DO UPDATE SET
    next_at = least(r.next_at, excluded.next_at),
    saturated = r.saturated AND r.connection_id <> ALL (@freed::uuid[])
WHERE r.next_at IS NULL AND excluded.next_at IS NOT NULL OR r.next_at > excluded.next_at
    OR r.saturated AND r.connection_id = ANY (@freed::uuid[]);
