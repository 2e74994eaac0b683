-- Claims, looks, leases, arms and results. Arrays of one query are of one
-- length: column by column what the rows of a batch say. The zero time, the
-- year 1, stands in them for NULL.

-- jobs, locked

-- name: LockJobs :many
-- These jobs, and those that wait for some of them. Everybody locks in this order.
SELECT * FROM job_state
WHERE job_id = ANY (@ids::uuid[]) OR waits_for = ANY (@done::uuid[])
ORDER BY job_id FOR NO KEY UPDATE;

-- name: LockFree :many
-- Behind the locks of others of the batch, so nobody is waited for.
SELECT * FROM job_state WHERE job_id = ANY (@ids::uuid[])
ORDER BY job_id FOR NO KEY UPDATE SKIP LOCKED;

-- name: Marks :many
SELECT job_id, number, round, result, armed_at, fence_at, handle, effect_key, request_digest
FROM attempts WHERE job_id = ANY (@ids::uuid[])
ORDER BY job_id, number;

-- claims

-- What is due at a time, or, where that is NULL, at the clock of the server: three
-- statements on the way of a BEGIN, which know no time of Go's.

-- name: TakeTurns :many
-- The connections that have something due and that no other claim serves at this
-- moment.
SELECT connection_id, bucket_at FROM connection_claims
WHERE connection_id = ANY (ARRAY(
    SELECT r.connection_id FROM connection_ready AS r
    WHERE r.runnable_at <= coalesce(sqlc.narg('at')::timestamptz, (SELECT clock_timestamp() + sqlc.arg('lead')::interval))
    ORDER BY r.runnable_at, r.connection_id, r.hold_key LIMIT @max_rows
))
ORDER BY connection_id FOR NO KEY UPDATE SKIP LOCKED;

-- name: ReadyRows :many
SELECT connection_id, hold_key FROM connection_ready
WHERE runnable_at <= coalesce(sqlc.narg('at')::timestamptz, (SELECT clock_timestamp() + sqlc.arg('lead')::interval))
ORDER BY runnable_at, connection_id, hold_key LIMIT @max_rows;

-- name: ReadyConnections :many
-- As Connections gives them, and how many of their jobs are under way. Asked when the
-- turns are taken: other claims' jobs are counted.
SELECT
    clock_timestamp()::timestamptz AS now, sqlc.embed(c),
    coalesce(h.auth_hold_at, 'epoch')::timestamptz AS auth_hold_at,
    coalesce(h.auth_hold_reason, '')::text AS auth_hold_reason,
    coalesce(h.limited_until, 'epoch')::timestamptz AS limited_until,
    (SELECT count(*) FROM job_state AS s WHERE s.connection_id = c.id AND s.state IN (2, 3)) AS busy
FROM connections AS c
LEFT JOIN LATERAL (
    SELECT
        min(r.auth_hold_at) AS auth_hold_at,
        (array_agg(r.auth_hold_reason ORDER BY r.auth_hold_at) FILTER (WHERE r.auth_hold_at IS NOT NULL))[1] AS auth_hold_reason,
        max(r.rate_limited_until) AS limited_until
    FROM connection_ready AS r
    WHERE r.connection_id = c.id AND (r.auth_hold_at IS NOT NULL OR r.rate_limited_until > 'epoch')
) AS h ON true
WHERE c.id = ANY (ARRAY(
    SELECT d.connection_id FROM connection_ready AS d
    WHERE d.runnable_at <= coalesce(sqlc.narg('at')::timestamptz, (SELECT clock_timestamp() + sqlc.arg('lead')::interval))
    ORDER BY d.runnable_at, d.connection_id, d.hold_key LIMIT @max_rows
));

-- name: FreeTurns :many
-- Of these connections, those that no claim serves at this moment.
SELECT connection_id, bucket_at FROM connection_claims
WHERE connection_id = ANY (@ids::uuid[])
ORDER BY connection_id FOR NO KEY UPDATE SKIP LOCKED;

-- name: RunnableRows :many
-- Of these ready rows, those whose time has come.
WITH u AS (SELECT unnest(@connections::uuid[]) AS connection_id, unnest(@hold_keys::text[]) AS hold_key)
SELECT r.connection_id, r.hold_key
FROM u JOIN connection_ready AS r ON r.connection_id = u.connection_id AND r.hold_key = u.hold_key
WHERE r.runnable_at <= @now;

-- name: AwaitTurn :one
SELECT connection_id, bucket_at FROM connection_claims
WHERE connection_id = @id FOR NO KEY UPDATE;

-- name: Bounds :many
SELECT c.id, c.max_in_flight, c.max_per_minute,
    (SELECT count(*) FROM job_state AS s WHERE s.connection_id = c.id AND s.state IN (2, 3)) AS busy
FROM connections AS c WHERE c.id = ANY (@ids::uuid[]);

-- name: LockDue :many
-- With their requests: what was armed before is only known to be there. A row is locked
-- as it is by then, but its request is read as it was when the statement began. A job
-- that was changed in between is left for the next claim.
WITH want AS (
    SELECT unnest(@connections::uuid[]) AS connection_id, unnest(@hold_keys::text[]) AS hold_key,
        unnest(@most::bigint[]) AS most
)
SELECT
    d.job_id, d.project, d.connection_id, d.schedule_id, d.hold_key, d.state, d.version, d.attempt, d.round, d.failures,
    d.claims, d.looks, d.negatives, d.scheduled_for, d.start_window, d.start_deadline, d.class, d.cancel_asked_at,
    d.error_kind, d.error_message, d.error_status, d.error_at, d.resolution_id,
    j.idem_key, j.payload_kind, j.max_attempts, j.min_backoff, j.max_backoff, j.attempt_timeout, j.policy, j.labels,
    j.time_zone, j.reply_to, j.fingerprint, j.created_at, j.payload
FROM want AS w CROSS JOIN LATERAL (
    SELECT
        s.job_id, s.project, s.connection_id, s.schedule_id, s.hold_key, s.state, s.version, s.attempt, s.round, s.failures,
        s.claims, s.looks, s.negatives, s.scheduled_for, s.start_window, s.start_deadline, s.class, s.cancel_asked_at,
        s.error_kind, s.error_message, s.error_status, s.error_at, s.resolution_id
    FROM job_state AS s
    WHERE s.connection_id = w.connection_id AND s.hold_key = w.hold_key
        AND s.state IN (1, 6) AND s.waits_for IS NULL
        AND s.next_at <= @now AND s.start_deadline > @now AND s.position < @base
    ORDER BY s.next_at LIMIT w.most FOR NO KEY UPDATE SKIP LOCKED
) AS d JOIN jobs AS j ON j.id = d.job_id
JOIN job_state AS seen ON seen.job_id = d.job_id AND seen.version = d.version;

-- name: ClaimJobs :exec
-- The version stands for all that was due when the jobs were locked. To name the
-- state again would offer the planner the index of all that is runnable.
WITH u AS (
    SELECT unnest(@jobs::uuid[]) AS job_id, unnest(@versions::bigint[]) AS version,
        unnest(@tokens::uuid[]) AS token, unnest(@positions::bigint[]) AS position,
        unnest(@states::smallint[]) AS state
),
claimed AS (
    UPDATE job_state AS s SET
        state = 2, version = s.version + 1, position = u.position, claim_token = u.token,
        claimed_at = @now, worker = @worker, next_at = @lease_end, blocked = '', updated_at = @now
    FROM u WHERE s.job_id = u.job_id AND s.version = u.version
    RETURNING s.position, s.project, s.job_id, s.connection_id, s.schedule_id, s.version, u.state AS was
),
logged AS (
    INSERT INTO events (
        position, project, job_id, connection_id, schedule_id, sequence, from_state, to_state,
        cause, attempt, actor, reason, detail, at
    )
    SELECT
        position, project, job_id, connection_id, schedule_id, version, was, 2,
        @cause, 0, @worker, '', '', @now
    FROM claimed
)
SELECT all_written(count(job_id), cardinality(@jobs::uuid[])) FROM claimed;

-- name: ClaimArmed :exec
-- Jobs that are armed by their claim: both steps in one version of the row, with both
-- events. The version stands for all that was due when they were locked, and for the
-- lease, which nobody else ever sees. The rest is as for any arm.
WITH u AS (
    SELECT unnest(@jobs::uuid[]) AS job_id, unnest(@versions::bigint[]) AS version,
        unnest(@positions::bigint[]) AS position, unnest(@states::smallint[]) AS was,
        unnest(@classes::smallint[]) AS class, unnest(@fences::timestamptz[]) AS fence,
        unnest(@workers::text[]) AS worker, unnest(@tokens::uuid[]) AS arm_token,
        unnest(@send_deadlines::timestamptz[]) AS send_deadline,
        unnest(@answer_deadlines::timestamptz[]) AS answer_deadline,
        unnest(@effect_keys::text[]) AS effect_key, unnest(@digests::bytea[]) AS request_digest,
        unnest(@credential_versions::bigint[]) AS credential_version,
        unnest(@account_identities::text[]) AS account_identity, unnest(@watermarks::text[]) AS watermark,
        unnest(@frozens::bytea[]) AS frozen
),
armed AS (
    UPDATE job_state AS s SET
        state = 3, version = s.version + 2, position = u.position + 1, attempt = s.attempt + 1,
        class = CASE WHEN s.attempt = 0 THEN u.class ELSE s.class END, next_at = u.fence,
        claimed_at = @now, worker = u.worker, claims = 0, blocked = '', updated_at = @now
    FROM u WHERE s.job_id = u.job_id AND s.version = u.version
        AND s.cancel_asked_at IS NULL AND s.start_deadline > @now
        AND (s.attempt = 0
            OR NOT EXISTS (SELECT 1 FROM attempts AS a WHERE a.job_id = s.job_id AND a.result IN (0, 4)))
    RETURNING s.job_id, s.project, s.connection_id, s.schedule_id, s.version, s.attempt, s.round, s.scheduled_for,
        s.updated_at AS armed_at, u.position, u.was, u.fence, u.worker, u.arm_token, u.send_deadline, u.answer_deadline,
        u.effect_key, u.request_digest, u.credential_version, u.account_identity, u.watermark, u.frozen
),
begun AS (
    INSERT INTO attempts (
        job_id, number, round, arm_token, worker, claimed_at, armed_at, lag, connection_id, send_deadline, answer_deadline,
        fence_at, effect_key, request_digest, credential_version, account_identity, watermark, frozen
    )
    SELECT
        job_id, attempt, round, arm_token, worker, armed_at, armed_at,
        CASE WHEN attempt = 1 THEN (date_part('epoch', armed_at - scheduled_for) * 1000000)::bigint END,
        CASE WHEN attempt = 1 THEN connection_id END, send_deadline, answer_deadline,
        fence, effect_key, request_digest, credential_version, account_identity, watermark, frozen
    FROM armed
),
logged AS (
    INSERT INTO events (
        position, project, job_id, connection_id, schedule_id, sequence, from_state, to_state,
        cause, attempt, actor, reason, detail, at
    )
    SELECT
        a.position + e.step, a.project, a.job_id, a.connection_id, a.schedule_id, a.version - 1 + e.step,
        CASE WHEN e.step = 0 THEN a.was ELSE 2 END, 2 + e.step, CASE WHEN e.step = 0 THEN @claimed::smallint ELSE @armed::smallint END,
        CASE WHEN e.step = 0 THEN 0 ELSE a.attempt END, CASE WHEN e.step = 0 THEN @worker::text ELSE a.worker END,
        '', '', a.armed_at
    FROM armed AS a CROSS JOIN (VALUES (0), (1)) AS e (step)
)
SELECT all_written(count(job_id), cardinality(@jobs::uuid[])) FROM armed;

-- name: SetBuckets :exec
WITH u AS (SELECT unnest(@connections::uuid[]) AS connection_id, unnest(@ats::bigint[]) AS at)
UPDATE connection_claims AS c SET bucket_at = u.at FROM u WHERE c.connection_id = u.connection_id;

-- name: CloseTurns :exec
-- Waits for the results that are being written to these connections' jobs, and
-- keeps new ones waiting.
SELECT 1 FROM connection_claims
WHERE connection_id = ANY (@ids::uuid[])
ORDER BY connection_id FOR UPDATE;

-- name: LockReady :exec
WITH u AS (SELECT unnest(@connections::uuid[]) AS connection_id, unnest(@hold_keys::text[]) AS hold_key)
SELECT 1 FROM connection_ready AS r JOIN u ON u.connection_id = r.connection_id AND u.hold_key = r.hold_key
ORDER BY r.connection_id, r.hold_key FOR NO KEY UPDATE OF r;

-- name: Served :exec
-- What a row still has is due at the earliest of it; NULL when it is drained.
WITH u AS (
    SELECT unnest(@connections::uuid[]) AS connection_id, unnest(@hold_keys::text[]) AS hold_key,
        unnest(@served::boolean[]) AS served, unnest(@saturated::boolean[]) AS saturated,
        unnest(@paced_untils::timestamptz[]) AS paced_until
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
    paced_until = greatest(r.paced_until, u.paced_until)
FROM u WHERE u.connection_id = r.connection_id AND u.hold_key = r.hold_key;

-- name: ReplyIDs :many
SELECT job_id, external_id FROM effects WHERE job_id = ANY (@ids::uuid[]);

-- looks and leases

-- name: LeaseLooks :many
UPDATE job_state SET
    claim_token = gen_random_uuid(), claimed_at = @now, worker = @worker, next_at = @lease_end
WHERE ctid = ANY (ARRAY(
    SELECT s.ctid FROM job_state AS s
    WHERE s.state IN (4, 5) AND s.next_at <= @now
    ORDER BY s.next_at LIMIT @max_rows FOR NO KEY UPDATE SKIP LOCKED
))
RETURNING job_id;

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

-- arms

-- name: Holds :many
SELECT s.job_id, (r.paused OR r.auth_hold_at IS NOT NULL)::boolean AS held, r.rate_limited_until
FROM job_state AS s
JOIN connection_ready AS r ON r.connection_id = s.connection_id AND r.hold_key = s.hold_key
WHERE s.job_id = ANY (@ids::uuid[])
    AND (r.paused OR r.auth_hold_at IS NOT NULL OR r.rate_limited_until > 'epoch');

-- name: HeldRows :many
-- Of ready rows, those whose hold key is or was held.
WITH u AS (SELECT unnest(@connections::uuid[]) AS connection_id, unnest(@hold_keys::text[]) AS hold_key)
SELECT r.connection_id, r.hold_key, (r.paused OR r.auth_hold_at IS NOT NULL)::boolean AS held, r.rate_limited_until
FROM u JOIN connection_ready AS r ON r.connection_id = u.connection_id AND r.hold_key = u.hold_key
WHERE r.paused OR r.auth_hold_at IS NOT NULL OR r.rate_limited_until > 'epoch';

-- name: TakeGates :many
-- A gate that the job has already is taken along; one of another job is not.
WITH u AS (
    SELECT unnest(@accounts::text[]) AS account, unnest(@fingerprints::bytea[]) AS fingerprint,
        unnest(@jobs::uuid[]) AS job_id, unnest(@attempts::bigint[]) AS attempt
),
kept AS (
    UPDATE open_intents AS o SET attempt = u.attempt FROM u
    WHERE o.job_id = u.job_id AND o.account = u.account AND o.fingerprint = u.fingerprint
    RETURNING o.job_id
),
taken AS (
    INSERT INTO open_intents (account, fingerprint, job_id, attempt)
    SELECT u.account, u.fingerprint, u.job_id, u.attempt FROM u
    WHERE NOT EXISTS (
        SELECT 1 FROM open_intents AS o
        WHERE o.job_id = u.job_id AND o.account = u.account AND o.fingerprint = u.fingerprint
    )
    ORDER BY u.account, u.fingerprint
    ON CONFLICT (account, fingerprint) DO NOTHING
    RETURNING job_id
)
SELECT job_id FROM kept UNION ALL SELECT job_id FROM taken;

-- name: GateOwners :many
WITH u AS (SELECT unnest(@accounts::text[]) AS account, unnest(@fingerprints::bytea[]) AS fingerprint)
SELECT o.account, o.fingerprint, o.job_id
FROM u JOIN open_intents AS o ON o.account = u.account AND o.fingerprint = u.fingerprint;

-- name: ArmFirst :many
-- First arms whose guards all hold, with the attempts and the events. What does not
-- come back has its refusal named on its locked row. The items are sorted, so that
-- their rows are locked in everybody's order. The state is cast so that no index of
-- states offers itself, which would read all jobs under way for each of a batch.
WITH u AS (
    SELECT unnest(@jobs::uuid[]) AS job_id, unnest(@versions::bigint[]) AS version,
        unnest(@positions::bigint[]) AS position, unnest(@claims::uuid[]) AS claim,
        unnest(@classes::smallint[]) AS class, unnest(@fences::timestamptz[]) AS fence,
        unnest(@workers::text[]) AS worker, unnest(@tokens::uuid[]) AS arm_token,
        unnest(@send_deadlines::timestamptz[]) AS send_deadline,
        unnest(@answer_deadlines::timestamptz[]) AS answer_deadline,
        unnest(@effect_keys::text[]) AS effect_key, unnest(@digests::bytea[]) AS request_digest,
        unnest(@credential_versions::bigint[]) AS credential_version,
        unnest(@account_identities::text[]) AS account_identity, unnest(@watermarks::text[]) AS watermark,
        unnest(@frozens::bytea[]) AS frozen
),
armed AS (
    UPDATE job_state AS s SET
        state = 3, version = s.version + 1, position = u.position, attempt = 1, class = u.class,
        next_at = u.fence, claim_token = NULL, worker = u.worker, claims = 0, blocked = '', updated_at = @now
    FROM u WHERE s.job_id = u.job_id AND s.version = u.version AND s.state::integer = 2 AND s.attempt = 0
        AND s.claim_token = u.claim AND s.next_at > @now AND s.position < @base
        AND s.cancel_asked_at IS NULL AND s.start_deadline > @now AND s.resolution_id IS NULL
        AND NOT EXISTS (SELECT 1 FROM connection_ready AS r
            WHERE r.connection_id = s.connection_id AND r.hold_key = s.hold_key
                AND (r.paused OR r.auth_hold_at IS NOT NULL OR r.rate_limited_until > @now))
    RETURNING s.job_id, s.project, s.connection_id, s.schedule_id, s.hold_key, s.version AS sequence, s.round, s.failures,
        s.looks, s.negatives, s.scheduled_for, s.start_window, s.start_deadline, s.claimed_at, s.updated_at AS armed_at,
        s.error_kind, s.error_message, s.error_status, s.error_at,
        u.position, u.fence, u.worker, u.arm_token, u.send_deadline, u.answer_deadline, u.effect_key,
        u.request_digest, u.credential_version, u.account_identity, u.watermark, u.frozen
),
begun AS (
    INSERT INTO attempts (
        job_id, number, round, arm_token, worker, claimed_at, armed_at, lag, connection_id, send_deadline, answer_deadline,
        fence_at, effect_key, request_digest, credential_version, account_identity, watermark, frozen
    )
    SELECT
        job_id, 1, round, arm_token, worker, claimed_at, armed_at,
        (date_part('epoch', armed_at - scheduled_for) * 1000000)::bigint, connection_id, send_deadline, answer_deadline,
        fence, effect_key, request_digest, credential_version, account_identity, watermark, frozen
    FROM armed
),
logged AS (
    INSERT INTO events (
        position, project, job_id, connection_id, schedule_id, sequence, from_state, to_state,
        cause, attempt, actor, reason, detail, at
    )
    SELECT
        position, project, job_id, connection_id, schedule_id, sequence, 2, 3,
        @cause::smallint, 1, worker, '', '', armed_at
    FROM armed
)
SELECT job_id, project, connection_id, schedule_id, hold_key, sequence, round, failures, looks, negatives,
    scheduled_for, start_window, start_deadline, claimed_at, error_kind, error_message, error_status, error_at
FROM armed;

-- name: ArmJobs :exec
-- States, attempts and events. The class is frozen at the first arm. A
-- first arm of an effect needs every earlier attempt closed; what a re-arm needs is
-- checked by its trigger. A first attempt is a start, as late as the job is then.
-- The state is named so that no index of states offers itself, which would read all
-- jobs under way for the few of a batch.
WITH u AS (
    SELECT unnest(@jobs::uuid[]) AS job_id, unnest(@versions::bigint[]) AS version,
        unnest(@positions::bigint[]) AS position, unnest(@claims::uuid[]) AS claim,
        unnest(@classes::smallint[]) AS class, unnest(@fences::timestamptz[]) AS fence,
        unnest(@workers::text[]) AS worker, unnest(@rearms::boolean[]) AS rearm,
        unnest(@tokens::uuid[]) AS arm_token, unnest(@send_deadlines::timestamptz[]) AS send_deadline,
        unnest(@answer_deadlines::timestamptz[]) AS answer_deadline,
        unnest(@effect_keys::text[]) AS effect_key, unnest(@digests::bytea[]) AS request_digest,
        unnest(@credential_versions::bigint[]) AS credential_version,
        unnest(@account_identities::text[]) AS account_identity, unnest(@watermarks::text[]) AS watermark,
        unnest(@handles::text[]) AS handle, unnest(@frozens::bytea[]) AS frozen
),
armed AS (
    UPDATE job_state AS s SET
        state = 3, version = s.version + 1, position = u.position, attempt = s.attempt + 1,
        class = CASE WHEN s.attempt = 0 THEN u.class ELSE s.class END,
        next_at = u.fence, claim_token = NULL, worker = u.worker, claims = 0, blocked = '', updated_at = @now
    FROM u WHERE s.job_id = u.job_id AND s.version = u.version
        AND s.claim_token = u.claim AND s.next_at > @now
        AND s.cancel_asked_at IS NULL AND s.start_deadline > @now
        AND s.state = CASE WHEN u.rearm THEN 5 ELSE 2 END
        AND (u.rearm OR s.attempt = 0
            OR NOT EXISTS (SELECT 1 FROM attempts AS a WHERE a.job_id = s.job_id AND a.result IN (0, 4)))
    RETURNING s.project, s.connection_id, s.schedule_id, s.version AS sequence, s.attempt, s.round, s.claimed_at,
        s.scheduled_for, s.updated_at AS armed_at, u.job_id, u.position, u.fence, u.worker, u.rearm, u.arm_token, u.send_deadline,
        u.answer_deadline, u.effect_key, u.request_digest, u.credential_version, u.account_identity,
        u.watermark, u.handle, u.frozen
),
begun AS (
    INSERT INTO attempts (
        job_id, number, round, arm_token, worker, claimed_at, armed_at, lag, connection_id, send_deadline, answer_deadline,
        fence_at, effect_key, request_digest, credential_version, account_identity, watermark, handle, frozen
    )
    SELECT
        job_id, attempt, round, arm_token, worker, claimed_at, armed_at,
        CASE WHEN attempt = 1 THEN (date_part('epoch', armed_at - scheduled_for) * 1000000)::bigint END,
        CASE WHEN attempt = 1 THEN connection_id END, send_deadline, answer_deadline,
        fence, effect_key, request_digest, credential_version, account_identity, watermark, handle, frozen
    FROM armed
),
logged AS (
    INSERT INTO events (
        position, project, job_id, connection_id, schedule_id, sequence, from_state, to_state,
        cause, attempt, actor, reason, detail, at
    )
    SELECT
        position, project, job_id, connection_id, schedule_id, sequence, CASE WHEN rearm THEN 5 ELSE 2 END, 3,
        @cause::smallint, attempt, worker, '', '', armed_at
    FROM armed
)
SELECT all_written(count(job_id), cardinality(@jobs::uuid[])) FROM armed;

-- name: LockJob :one
-- Waits for whoever is changing the job.
SELECT version FROM job_state WHERE job_id = @id FOR NO KEY UPDATE;

-- name: AttemptByToken :one
SELECT * FROM attempts WHERE job_id = @job_id AND arm_token = @arm_token;

-- name: SaveHandle :execrows
UPDATE attempts AS a SET handle = @handle
WHERE a.job_id = @job_id AND a.number = @number AND a.result = 0
    AND (SELECT s.state = 3 AND s.attempt = @number FROM job_state AS s WHERE s.job_id = @job_id);

-- name: AttemptExists :one
SELECT EXISTS (SELECT 1 FROM attempts WHERE job_id = @job_id AND number = @number);

-- results

-- name: EffectOwners :many
-- Whose account each attempt acted on, in which space of ids, and whose the
-- object is. Attempt 0 is a person's word about the last one. Where the account is
-- not known, connection and hold key stand for it.
WITH u AS (
    SELECT unnest(@jobs::uuid[]) AS job_id, unnest(@attempts::bigint[]) AS attempt,
        unnest(@external_ids::text[]) AS external_id
),
o AS MATERIALIZED (
    SELECT s.job_id, u.external_id, c.connector AS namespace,
        coalesce(nullif(a.account_identity, ''), nullif(c.account_identity, ''),
            'connection ' || s.connection_id || ' ' || s.hold_key)::text AS account
    FROM u JOIN job_state AS s ON s.job_id = u.job_id
    JOIN connections AS c ON c.id = s.connection_id
    LEFT JOIN attempts AS a ON a.job_id = u.job_id AND a.number = coalesce(nullif(u.attempt, 0), s.attempt)
)
SELECT o.job_id, o.account, o.namespace, e.job_id AS owner, coalesce(e.proof, 0)::smallint AS proof,
    coalesce(e.job_removed, false)::boolean AS owner_removed
FROM o LEFT JOIN effects AS e ON e.account = o.account AND e.namespace = o.namespace
    AND e.external_id = o.external_id AND e.external_id <> '' AND e.owns_id;

-- name: DisownEffects :exec
UPDATE effects SET owns_id = false WHERE job_id = ANY (@ids::uuid[]);

-- name: DropEffects :exec
DELETE FROM effects WHERE job_id = ANY (@ids::uuid[]);

-- name: InsertEffects :exec
-- In the account and the namespace that EffectOwners names. An object that another
-- job got meanwhile has the transaction run again.
WITH u AS (
    SELECT unnest(@jobs::uuid[]) AS job_id, unnest(@external_ids::text[]) AS external_id,
        unnest(@external_urls::text[]) AS external_url, unnest(@owns_ids::boolean[]) AS owns_id,
        unnest(@attempts::bigint[]) AS attempt, unnest(@rounds::bigint[]) AS round,
        unnest(@proofs::smallint[]) AS proof
),
o AS (
    SELECT u.job_id, u.external_id, u.external_url, u.owns_id, u.attempt, u.round, u.proof, c.connector AS namespace,
        coalesce(nullif(a.account_identity, ''), nullif(c.account_identity, ''),
            'connection ' || s.connection_id || ' ' || s.hold_key)::text AS account
    FROM u JOIN job_state AS s ON s.job_id = u.job_id
    JOIN connections AS c ON c.id = s.connection_id
    LEFT JOIN attempts AS a ON a.job_id = u.job_id AND a.number = coalesce(nullif(u.attempt, 0), s.attempt)
),
made AS (
    INSERT INTO effects (job_id, account, namespace, external_id, external_url, owns_id, attempt, round, proof, at)
    SELECT o.job_id, o.account, o.namespace, o.external_id, o.external_url, o.owns_id, o.attempt, o.round, o.proof, @now
    FROM o ORDER BY o.account, o.namespace, o.external_id
    ON CONFLICT (account, namespace, external_id) WHERE external_id <> '' AND owns_id DO NOTHING
    RETURNING job_id
)
SELECT none_overtaken(count(job_id), cardinality(@jobs::uuid[])) FROM made;

-- name: SettleAttempts :exec
WITH u AS (
    SELECT unnest(@jobs::uuid[]) AS job_id, unnest(@numbers::bigint[]) AS number,
        unnest(@results::smallint[]) AS result, unnest(@kinds::smallint[]) AS kind,
        unnest(@messages::text[]) AS message, unnest(@statuses::bigint[]) AS status,
        unnest(@bytes::bigint[]) AS bytes, unnest(@handles::text[]) AS handle
)
UPDATE attempts AS a SET
    result = u.result, kind = u.kind, message = u.message, http_status = u.status,
    bytes_written = greatest(a.bytes_written, u.bytes),
    handle = CASE WHEN u.handle = '' THEN a.handle ELSE u.handle END,
    ended_at = coalesce(a.ended_at, @now)
FROM u WHERE a.job_id = u.job_id AND a.number = u.number;

-- name: CloseAttempts :exec
WITH u AS (
    SELECT unnest(@jobs::uuid[]) AS job_id, unnest(@numbers::bigint[]) AS number,
        unnest(@results::smallint[]) AS result
)
UPDATE attempts AS a SET result = u.result, ended_at = coalesce(a.ended_at, @now)
FROM u WHERE a.job_id = u.job_id AND a.number = u.number AND a.result IN (0, 4);

-- name: InsertObservations :exec
INSERT INTO observations (job_id, attempt, verdict, external_id, external_url, handle, detail, begun_at, ended_at)
SELECT
    unnest(@jobs::uuid[]), unnest(@attempts::bigint[]), unnest(@verdicts::smallint[]),
    unnest(@external_ids::text[]), unnest(@external_urls::text[]), unnest(@handles::text[]),
    unnest(@details::text[]), nullif(unnest(@begun_ats::timestamptz[]), '0001-01-01 00:00:00+00'::timestamptz),
    nullif(unnest(@ended_ats::timestamptz[]), '0001-01-01 00:00:00+00'::timestamptz);

-- name: InsertResolutions :many
INSERT INTO resolutions (job_id, ruling, actor, note, at)
SELECT u.job_id, u.ruling, u.actor, u.note, @now
FROM (
    SELECT unnest(@jobs::uuid[]) AS job_id, unnest(@rulings::smallint[]) AS ruling,
        unnest(@actors::text[]) AS actor, unnest(@notes::text[]) AS note
) AS u
RETURNING id, job_id;

-- name: SetContents :exec
-- NULL and an empty text leave a column as it is.
WITH u AS (
    SELECT unnest(@jobs::uuid[]) AS job_id, unnest(@payloads::bytea[]) AS payload,
        unnest(@labels::text[]) AS labels
)
UPDATE jobs AS j SET
    payload = coalesce(u.payload, j.payload), labels = coalesce(nullif(u.labels, '')::jsonb, j.labels)
FROM u WHERE j.id = u.job_id;

-- name: SucceedFirst :many
-- Successes of first attempts where nothing else is to be said, with the attempts, the
-- events and the gates that open. Where one is alone in its transaction, its turn is
-- taken, too (see OpenTurns). The items are sorted, so that their rows are locked in
-- everybody's order. The state is cast, and the attempt's number is that of the row, so
-- that no partial index offers itself.
WITH u AS (
    SELECT unnest(@jobs::uuid[]) AS job_id, unnest(@versions::bigint[]) AS version,
        unnest(@positions::bigint[]) AS position, unnest(@statuses::bigint[]) AS status,
        unnest(@bytes::bigint[]) AS bytes, unnest(@messages::text[]) AS message, unnest(@actors::text[]) AS actor
),
done AS (
    UPDATE job_state AS s SET
        state = 8, version = s.version + 1, position = u.position, next_at = NULL,
        effect_attempt = 1, effect_round = 1, effect_at = @now, updated_at = @now, ended_at = @now
    FROM u WHERE s.job_id = u.job_id AND s.version = u.version AND s.state::integer = 3 AND s.attempt = 1
        AND s.round = 1 AND s.failures = 0 AND s.claims = 0 AND s.looks = 0 AND s.negatives = 0 AND s.blocked = ''
        AND s.waits_for IS NULL AND s.resolution_id IS NULL AND s.position < @base
    RETURNING s.job_id, s.project, s.connection_id, s.schedule_id, s.hold_key, s.version, s.scheduled_for, s.start_window,
        s.start_deadline, s.worker, s.class, s.cancel_asked_at, s.error_kind, s.error_message, s.error_status, s.error_at,
        s.attempt, u.position, u.status, u.bytes, u.message, u.actor
),
settled AS (
    UPDATE attempts AS a SET
        result = 1, message = d.message, http_status = d.status, bytes_written = greatest(a.bytes_written, d.bytes),
        ended_at = coalesce(a.ended_at, @now)
    FROM done AS d WHERE a.job_id = d.job_id AND a.number = d.attempt AND a.result = 0
    RETURNING d.job_id, d.project, d.connection_id, d.schedule_id, d.hold_key, d.version, d.scheduled_for, d.start_window,
        d.start_deadline, d.worker, d.class, d.cancel_asked_at, d.error_kind, d.error_message, d.error_status, d.error_at,
        a.armed_at, a.fence_at, a.handle
),
logged AS (
    INSERT INTO events (
        position, project, job_id, connection_id, schedule_id, sequence, from_state, to_state,
        cause, attempt, actor, reason, detail, at
    )
    SELECT position, project, job_id, connection_id, schedule_id, version, 3, 8, @cause::smallint, 1, actor, '', '', @now
    FROM done
),
opened AS (
    DELETE FROM open_intents AS o USING done AS d WHERE o.job_id = d.job_id
),
turns AS MATERIALIZED (
    SELECT connection_id FROM connection_claims
    WHERE @alone::boolean AND connection_id = ANY (ARRAY(SELECT d.connection_id FROM done AS d))
    ORDER BY connection_id FOR KEY SHARE
)
SELECT job_id, project, connection_id, schedule_id, hold_key, version, scheduled_for, start_window, start_deadline,
    worker, class, cancel_asked_at, error_kind, error_message, error_status, error_at, armed_at, fence_at, handle,
    (SELECT count(*) FROM turns) AS turns
FROM settled;

-- name: AfterSuccess :one
-- Whether somebody waits for one of these jobs, whoever had it locked before it was
-- written, and whether a connection may be saturated.
SELECT EXISTS (SELECT 1 FROM job_state AS w WHERE w.waits_for = ANY (@done::uuid[]))::boolean AS awaited,
    EXISTS (SELECT 1 FROM connection_ready AS r WHERE r.saturated)::boolean AS saturated;

-- name: SetStates :one
-- Every change of a job but claims, arms and leases, with its event, and the gates
-- that it opens. It tells whether somebody waits for a job that is done who came after
-- those that did were locked (to lock him now would be out of the order that everybody
-- keeps), and whether a connection that is freed was saturated.
WITH u AS (
    SELECT unnest(@jobs::uuid[]) AS job_id, unnest(@states::smallint[]) AS state,
        unnest(@versions::bigint[]) AS version, unnest(@positions::bigint[]) AS position,
        unnest(@rounds::bigint[]) AS round, unnest(@failures::bigint[]) AS failures,
        unnest(@claims::bigint[]) AS claims, unnest(@looks::bigint[]) AS looks,
        unnest(@negatives::bigint[]) AS negatives, unnest(@hold_keys::text[]) AS hold_key,
        unnest(@scheduled_fors::timestamptz[]) AS scheduled_for,
        unnest(@start_windows::bigint[]) AS start_window,
        unnest(@start_deadlines::timestamptz[]) AS start_deadline,
        unnest(@next_ats::timestamptz[]) AS next_at, unnest(@claim_tokens::uuid[]) AS claim_token,
        unnest(@cancels::timestamptz[]) AS cancel_asked_at, unnest(@blocked::text[]) AS blocked,
        unnest(@error_kinds::smallint[]) AS error_kind, unnest(@error_messages::text[]) AS error_message,
        unnest(@error_statuses::bigint[]) AS error_status, unnest(@error_ats::timestamptz[]) AS error_at,
        unnest(@resolutions::bigint[]) AS resolution_id, unnest(@updated_ats::timestamptz[]) AS updated_at,
        unnest(@ended_ats::timestamptz[]) AS ended_at,
        unnest(@effect_attempts::bigint[]) AS effect_attempt, unnest(@effect_rounds::bigint[]) AS effect_round,
        unnest(@effect_ats::timestamptz[]) AS effect_at,
        unnest(@from_states::smallint[]) AS from_state, unnest(@causes::smallint[]) AS cause,
        unnest(@attempts::bigint[]) AS attempt, unnest(@actors::text[]) AS actor,
        unnest(@reasons::text[]) AS reason, unnest(@details::text[]) AS detail
),
changed AS (
    UPDATE job_state AS s SET
        state = u.state, version = u.version, position = u.position, round = u.round,
        failures = u.failures, claims = u.claims, looks = u.looks, negatives = u.negatives,
        hold_key = u.hold_key, scheduled_for = u.scheduled_for,
        start_window = u.start_window, start_deadline = u.start_deadline,
        next_at = nullif(u.next_at, '0001-01-01 00:00:00+00'::timestamptz), claim_token = u.claim_token,
        cancel_asked_at = nullif(u.cancel_asked_at, '0001-01-01 00:00:00+00'::timestamptz),
        blocked = u.blocked, error_kind = u.error_kind, error_message = u.error_message,
        error_status = u.error_status, error_at = nullif(u.error_at, '0001-01-01 00:00:00+00'::timestamptz),
        resolution_id = nullif(u.resolution_id, 0), updated_at = u.updated_at,
        ended_at = nullif(u.ended_at, '0001-01-01 00:00:00+00'::timestamptz),
        effect_attempt = nullif(u.effect_attempt, 0), effect_round = nullif(u.effect_round, 0),
        effect_at = nullif(u.effect_at, '0001-01-01 00:00:00+00'::timestamptz)
    FROM u WHERE s.job_id = u.job_id AND s.version = u.version - 1
    RETURNING s.project, s.job_id, s.connection_id, s.schedule_id, s.version, s.state, s.position,
        u.from_state, u.cause, u.attempt, u.actor, u.reason, u.detail
),
logged AS (
    INSERT INTO events (
        position, project, job_id, connection_id, schedule_id, sequence, from_state, to_state,
        cause, attempt, actor, reason, detail, at
    )
    SELECT
        position, project, job_id, connection_id, schedule_id, version, from_state, state,
        cause, attempt, actor, reason, detail, @now
    FROM changed
),
opened AS (
    DELETE FROM open_intents WHERE job_id = ANY (@gates::uuid[])
)
SELECT all_written(count(c.job_id), cardinality(@jobs::uuid[])) AS written,
    EXISTS (SELECT 1 FROM job_state AS w
        WHERE w.waits_for = ANY (@done::uuid[]) AND w.job_id <> ALL (@waiting::uuid[]))::boolean AS newcomers,
    EXISTS (SELECT 1 FROM connection_ready AS r
        WHERE r.connection_id = ANY (@freed::uuid[]) AND r.saturated)::boolean AS saturated
FROM changed AS c;

-- name: LetGo :many
-- No change of theirs: no version, no event.
UPDATE job_state SET waits_for = NULL WHERE job_id = ANY (@locked::uuid[]) AND waits_for = ANY (@done::uuid[])
RETURNING job_id, connection_id, hold_key, state, next_at;

-- ready rows

-- name: OpenTurns :exec
-- Keeps claims from counting jobs under way while one of them ends.
SELECT 1 FROM connection_claims
WHERE connection_id = ANY (@ids::uuid[])
ORDER BY connection_id FOR KEY SHARE;

-- name: SaturatedRows :many
SELECT connection_id, hold_key FROM connection_ready
WHERE connection_id = ANY (@ids::uuid[]) AND saturated;

-- name: MakeReady :exec
-- Locks each row in the order that everybody keeps, lowers its due time (NULL: it
-- stays as it is), and frees it when its connection has room again.
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

-- name: Recount :exec
-- A job has left these rows otherwise than by a claim.
WITH u AS (SELECT unnest(@connections::uuid[]) AS connection_id, unnest(@hold_keys::text[]) AS hold_key)
UPDATE connection_ready AS r SET next_at = (
    SELECT s.next_at FROM job_state AS s
    WHERE s.connection_id = r.connection_id AND s.hold_key = r.hold_key
        AND s.state IN (1, 6) AND s.waits_for IS NULL
    ORDER BY s.next_at LIMIT 1
)
FROM u WHERE u.connection_id = r.connection_id AND u.hold_key = r.hold_key;

-- name: HoldAuth :exec
-- A refusal of a credential that was replaced meanwhile holds nothing.
UPDATE connection_ready AS r SET auth_hold_at = coalesce(r.auth_hold_at, @now), auth_hold_reason = @reason
FROM connections AS c
WHERE r.connection_id = @connection_id AND r.hold_key = @hold_key
    AND c.id = @connection_id AND c.credential_version = @credential_version;

-- name: HoldRate :exec
UPDATE connection_ready SET rate_limited_until = @until, rate_limit_reason = @reason
WHERE connection_id = @connection_id AND hold_key = @hold_key AND rate_limited_until < @until;

-- due times

-- name: OverdueIDs :many
-- What is under way: past its lease or its fence, or claimed and past its window.
SELECT job_id FROM job_state
WHERE state IN (2, 3) AND CASE WHEN state = 2 THEN least(next_at, start_deadline) ELSE next_at END <= @now::timestamptz
ORDER BY CASE WHEN state = 2 THEN least(next_at, start_deadline) ELSE next_at END LIMIT @max_rows;

-- name: FencesOverIDs :many
SELECT job_id FROM job_state
WHERE state IN (2, 3) AND state = 3
    AND CASE WHEN state = 2 THEN least(next_at, start_deadline) ELSE next_at END <= @now::timestamptz
ORDER BY CASE WHEN state = 2 THEN least(next_at, start_deadline) ELSE next_at END LIMIT @max_rows;

-- name: WindowOverIDs :many
SELECT job_id FROM job_state WHERE state IN (1, 6) AND start_deadline <= @now AND start_deadline < 'infinity'
ORDER BY start_deadline LIMIT @max_rows;

-- name: NextDue :one
SELECT clock_timestamp()::timestamptz AS now, least(
    @latest::timestamptz,
    CASE WHEN m.quarantined = '' THEN least(
        (SELECT CASE WHEN s.state = 2 THEN least(s.next_at, s.start_deadline) ELSE s.next_at END FROM job_state AS s
            WHERE s.state IN (2, 3)
            ORDER BY CASE WHEN s.state = 2 THEN least(s.next_at, s.start_deadline) ELSE s.next_at END LIMIT 1),
        (SELECT s.start_deadline FROM job_state AS s WHERE s.state IN (1, 6) AND s.start_deadline < 'infinity'
            ORDER BY s.start_deadline LIMIT 1),
        (SELECT r.runnable_at FROM connection_ready AS r WHERE r.runnable_at IS NOT NULL ORDER BY r.runnable_at LIMIT 1),
        (SELECT s.next_at FROM job_state AS s WHERE s.state IN (4, 5) ORDER BY s.next_at LIMIT 1)
    ) END
)::timestamptz AS at
FROM meta AS m WHERE m.id = 1;
