-- meta

-- name: GetMeta :one
SELECT * FROM meta WHERE id = 1;

-- jobs

-- name: Snapshots :many
-- Whole jobs, in one statement and so of one moment. The payload is read only
-- where it is asked for: a large one lies in a table of its own.
SELECT
    clock_timestamp()::timestamptz AS now,
    j.idem_key, j.payload_kind, j.start_window, j.max_attempts, j.min_backoff, j.max_backoff,
    j.attempt_timeout, j.policy, j.labels, j.time_zone, j.reply_to, j.schedule_id,
    j.fingerprint, j.created_at,
    (CASE WHEN @with_payload::boolean THEN j.payload ELSE ''::bytea END)::bytea AS payload,
    sqlc.embed(s),
    coalesce(m.open, '{}')::bigint[] AS open_attempts,
    coalesce(m.round_armed_at, 'epoch')::timestamptz AS round_armed_at,
    l.fence_at AS fence_at, coalesce(l.handle, '')::text AS handle,
    coalesce(e.attempt, 0)::bigint AS effect_attempt, coalesce(e.round, 0)::bigint AS effect_round,
    coalesce(e.proof, 0)::smallint AS effect_proof, coalesce(e.external_id, '')::text AS effect_id,
    coalesce(e.external_url, '')::text AS effect_url, e.at AS effect_at,
    coalesce(r.ruling, 0)::smallint AS ruling, coalesce(r.actor, '')::text AS ruling_actor,
    coalesce(r.note, '')::text AS ruling_note, r.at AS ruling_at
FROM jobs AS j
JOIN job_state AS s ON s.job_id = j.id
LEFT JOIN LATERAL (
    SELECT
        array_agg(a.number ORDER BY a.number) FILTER (WHERE a.result IN (0, 4)) AS open,
        min(a.armed_at) FILTER (WHERE a.round = s.round) AS round_armed_at
    FROM attempts AS a WHERE a.job_id = s.job_id
) AS m ON s.attempt > 0
LEFT JOIN attempts AS l ON l.job_id = s.job_id AND l.number = s.attempt
LEFT JOIN effects AS e ON e.job_id = s.job_id AND s.state = 8
LEFT JOIN resolutions AS r ON r.id = s.resolution_id
WHERE j.id = ANY (@ids::uuid[]);

-- events

-- name: InsertEvents :exec
INSERT INTO events (
    position, project, job_id, connection_id, schedule_id, sequence, from_state, to_state,
    cause, attempt, actor, reason, detail, at
)
SELECT
    unnest(@positions::bigint[]), unnest(@projects::text[]), unnest(@jobs::uuid[]),
    unnest(@connections::uuid[]), unnest(@schedules::uuid[]), unnest(@sequences::bigint[]),
    unnest(@from_states::smallint[]), unnest(@to_states::smallint[]), unnest(@causes::smallint[]),
    unnest(@attempts::bigint[]), unnest(@actors::text[]), unnest(@reasons::text[]),
    unnest(@details::text[]), unnest(@ats::timestamptz[]);
