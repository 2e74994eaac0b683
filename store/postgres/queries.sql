-- meta

-- name: GetMeta :one
SELECT * FROM meta WHERE id = 1;

-- new jobs

-- name: Prospects :many
-- The connections that jobs are to be stored on. The reference of each job to its connection
-- locks the connection until the commit.
SELECT id, project, class, (deleted_at IS NOT NULL)::boolean AS deleted FROM connections WHERE id = ANY (@ids::uuid[]);

-- name: LockPredecessors :many
-- Waits for results that are being written: either the result that releases a reply sees it,
-- or the reply sees the result. It also waits for other replies to the same job, so that
-- their count holds.
SELECT job_id, project, state FROM job_state WHERE job_id = ANY (@ids::uuid[])
ORDER BY job_id FOR NO KEY UPDATE;

-- name: CountWaiting :many
-- The jobs that wait for these, ended ones included. Run it after these are locked.
SELECT waits_for, count(*) AS waiting FROM job_state WHERE waits_for = ANY (@ids::uuid[]) GROUP BY waits_for;

-- name: BindKeys :many
-- Waits for other transactions that bind one of these keys, in the order of the items under
-- every plan of the join: the caller sorts them, so that two batches never wait for each
-- other. An item without a connection binds nothing.
WITH u AS (
    SELECT unnest(@projects::text[]) AS project, unnest(@digests::bytea[]) AS digest, unnest(@jobs::uuid[]) AS job_id,
        unnest(@connections::uuid[]) AS connection_id, generate_subscripts(@jobs::uuid[], 1) AS place
)
INSERT INTO job_keys (digest, job_id)
SELECT u.digest, u.job_id
FROM u JOIN connections AS c ON c.id = u.connection_id AND c.project = u.project AND c.deleted_at IS NULL
ORDER BY u.place
ON CONFLICT (digest) DO NOTHING
RETURNING job_id;

-- name: KeyOwners :many
SELECT k.digest, k.job_id FROM job_keys AS k WHERE k.digest = ANY (@digests::bytea[]);

-- name: TakenEffectKeys :many
SELECT digest FROM effect_keys WHERE digest = ANY (@digests::bytea[]);

-- name: TakeEffectKeys :execrows
-- In the order of the digests, which is the lock order.
WITH u AS (SELECT unnest(@digests::bytea[]) AS digest, unnest(@jobs::uuid[]) AS job_id)
INSERT INTO effect_keys (digest, job_id) SELECT u.digest, u.job_id FROM u ORDER BY u.digest
ON CONFLICT (digest) DO NOTHING;

-- name: InsertJobs :exec
-- Jobs with their states.
WITH u AS (
    SELECT
        unnest(@ids::uuid[]) AS id, unnest(@projects::text[]) AS project, unnest(@idem_keys::text[]) AS idem_key,
        unnest(@connections::uuid[]) AS connection_id, unnest(@payload_kinds::text[]) AS payload_kind,
        unnest(@start_windows::bigint[]) AS start_window, unnest(@wait_windows::bigint[]) AS wait_window,
        unnest(@retries::text[]) AS retry,
        unnest(@attempt_timeouts::bigint[]) AS attempt_timeout, unnest(@deliveries::smallint[]) AS delivery,
        unnest(@labels::text[])::jsonb AS labels, unnest(@time_zones::text[]) AS time_zone,
        nullif(unnest(@reply_tos::uuid[]), '00000000-0000-0000-0000-000000000000'::uuid) AS reply_to, nullif(unnest(@schedules::uuid[]), '00000000-0000-0000-0000-000000000000'::uuid) AS schedule_id,
        unnest(@fingerprints::bytea[]) AS fingerprint, unnest(@payloads::bytea[]) AS payload,
        unnest(@hold_keys::text[]) AS hold_key, @before::bigint AS before, generate_subscripts(@ids::uuid[], 1) AS place,
        unnest(@schedule_times::timestamptz[]) AS schedule_time, unnest(@unaskeds::boolean[]) AS unasked,
        unnest(@start_deadlines::timestamptz[]) AS start_deadline,
        unnest(@classes::smallint[]) AS class, nullif(unnest(@waits_fors::uuid[]), '00000000-0000-0000-0000-000000000000'::uuid) AS waits_for,
        unnest(@predecessor_ends::smallint[]) AS predecessor_end,
        unnest(@own_effect_keys::text[]) AS own_effect_key, unnest(@cool_downs::bigint[]) AS cool_down,
        unnest(@skips_if_present::bigint[]) AS skip_if_present, unnest(@traces::text[]) AS trace,
        unnest(@histories::bytea[]) AS history
),
new_jobs AS (
    INSERT INTO jobs (
        id, project, idem_key, connection_id, payload_kind, retry, attempt_timeout, delivery, labels, time_zone, reply_to, schedule_id, fingerprint,
        created_at, payload, own_effect_key, cool_down, skip_if_present, trace
    )
    SELECT
        id, project, idem_key, connection_id, payload_kind, retry, attempt_timeout, delivery, labels, time_zone, reply_to, schedule_id, fingerprint,
        @now::timestamptz, payload, own_effect_key, cool_down, skip_if_present, trace
    FROM u
),
used AS (
    INSERT INTO project_use (project, jobs, bytes)
    SELECT project, count(*), sum(octet_length(payload)) FROM u GROUP BY project
)
INSERT INTO job_state (
    job_id, project, connection_id, schedule_id, hold_key, state, version, position,
    schedule_time, unasked, start_window, start_deadline, next_at, class, waits_for, predecessor_end, wait_window, updated_at,
    history, state_since
)
SELECT
    id, project, connection_id, schedule_id, hold_key, 1, 1, before + place,
    schedule_time, unasked, start_window, start_deadline, schedule_time, class, waits_for, predecessor_end, wait_window,
    @now::timestamptz, history, @now::timestamptz
FROM u;

-- name: Starting :many
-- What a start depends on, by runnable row: the connection, as Connections returns it, how
-- many of its jobs are under way, and the row itself. Run it after the claim locks are taken.
WITH u AS (SELECT unnest(@connections::uuid[]) AS connection_id, unnest(@hold_keys::text[]) AS hold_key)
SELECT
    sqlc.embed(c),
    h.auth_hold_at::timestamptz AS auth_hold_at,
    coalesce(h.auth_hold_reason, '')::text AS auth_hold_reason,
    coalesce(h.auth_hold_cause, 0)::smallint AS auth_hold_cause,
    h.limited_until::timestamptz AS limited_until,
    (SELECT count(*) FROM job_state AS s WHERE s.connection_id = c.id AND s.state IN (2, 3)) AS busy,
    u.hold_key::text AS hold_key,
    coalesce(NOT r.paused AND NOT r.saturated AND r.auth_hold_at IS NULL, false)::boolean AS served,
    coalesce(greatest(r.rate_limited_until, r.paced_until, r.stopped_until, r.served_at), 'epoch')::timestamptz AS served_from,
    r.next_at
FROM u JOIN connections AS c ON c.id = u.connection_id
LEFT JOIN connection_ready AS r ON r.connection_id = u.connection_id AND r.hold_key = u.hold_key
LEFT JOIN LATERAL (
    SELECT
        min(o.auth_hold_at) AS auth_hold_at,
        (array_agg(o.auth_hold_reason ORDER BY o.auth_hold_at, o.hold_key) FILTER (WHERE o.auth_hold_at IS NOT NULL))[1] AS auth_hold_reason,
        (array_agg(o.auth_hold_cause ORDER BY o.auth_hold_at, o.hold_key) FILTER (WHERE o.auth_hold_at IS NOT NULL))[1] AS auth_hold_cause,
        max(o.rate_limited_until) AS limited_until
    FROM connection_ready AS o
    WHERE o.connection_id = c.id AND (o.auth_hold_at IS NOT NULL OR o.rate_limited_until > 'epoch')
) AS h ON true;

-- events

-- name: InsertPages :exec
-- Sent with the COMMIT (see pages.go).
INSERT INTO event_pages (position, first, project, at, events, starts, body)
SELECT
    unnest(@positions::bigint[]), unnest(@firsts::bigint[]), unnest(@projects::text[]), @now::timestamptz,
    unnest(@events::bigint[]), unnest(@starts::bytea[]), unnest(@bodies::bytea[]);

-- name: InsertTexts :exec
INSERT INTO event_texts (job_id, sequence, position, reason, detail)
SELECT
    unnest(@jobs::uuid[]), unnest(@sequences::bigint[]), unnest(@positions::bigint[]), unnest(@reasons::text[]),
    unnest(@details::text[]);

-- name: PagesAfter :many
-- The log's end, and the project's pages after a position, as many as have @scan events.
-- There is at least one row, without a page where the project has none.
WITH next AS MATERIALIZED (
    SELECT n.position, sum(n.events) OVER (ORDER BY n.position) - n.events AS before
    FROM (
        SELECT p.position, p.events FROM event_pages AS p
        WHERE p.project = @project AND p.position > @after AND p.position <= event_horizon()
        ORDER BY p.position LIMIT @scan::integer
    ) AS n
)
SELECT
    m.incarnation, m.events_from,
    coalesce((SELECT max(e.position) FROM event_pages AS e WHERE e.position <= event_horizon()), 0)::bigint AS last,
    coalesce(p.events, 0)::bigint AS events, coalesce(p.project, '')::text AS project, p.body
FROM meta AS m LEFT JOIN (next AS n JOIN event_pages AS p ON p.position = n.position) ON n.before < @scan::integer
WHERE m.id = 1 ORDER BY n.position;

-- name: TransactionsAfter :many
-- PagesAfter for all projects: the pages of whole transactions.
WITH next AS MATERIALIZED (
    SELECT n.position, sum(n.events) OVER (ORDER BY n.position) - n.events AS before
    FROM (
        SELECT p.position, p.events FROM event_pages AS p
        WHERE p.position > @after AND p.position <= event_horizon()
        ORDER BY p.position LIMIT @scan::integer
    ) AS n
)
SELECT
    m.incarnation, m.events_from,
    coalesce((SELECT max(e.position) FROM event_pages AS e WHERE e.position <= event_horizon()), 0)::bigint AS last,
    coalesce(p.events, 0)::bigint AS events, coalesce(p.project, '')::text AS project, p.body
FROM meta AS m LEFT JOIN event_pages AS p
    ON p.position > @after AND p.position < (((SELECT max(n.position) FROM next AS n WHERE n.before < @scan::integer) >> 20) + 1) << 20
WHERE m.id = 1 ORDER BY p.position;

-- name: LogEnd :one
SELECT
    m.incarnation, m.events_from,
    coalesce((SELECT max(e.position) FROM event_pages AS e WHERE e.position <= event_horizon()), 0)::bigint AS last
FROM meta AS m WHERE m.id = 1;
