-- Erasure: what retention does not remove, or not yet.

-- name: ShareRetention :one
-- Keeps a step of retention from starting, and waits for one: what it drops of the log
-- is judged by the jobs that are there. Erasures do not wait for each other.
SELECT dropped_to FROM retention WHERE id = 1 FOR SHARE;

-- name: LockToErase :one
SELECT job_id, project, state, version, ended_at FROM job_state WHERE job_id = @job_id FOR UPDATE;

-- name: BlankEvents :exec
UPDATE events SET reason = '', detail = '' WHERE job_id = ANY (@ids::uuid[]) AND (reason <> '' OR detail <> '');

-- name: InsertErasedJob :exec
INSERT INTO erased_jobs (
    job_id, project, key_digest, state, class, attempts, proof, effect_at, object_digest,
    schedule_time, created_at, ended_at, erased_at, actor
) VALUES (
    @job_id, @project, @key_digest, @state, @class, @attempts, @proof, @effect_at, @object_digest,
    @schedule_time, @created_at, @ended_at, @erased_at, @actor
);

-- name: GetErasedJob :one
SELECT * FROM erased_jobs WHERE job_id = @job_id;

-- name: CountOpen :one
-- Jobs that have not ended, up to a number. Those under way are found by another index.
SELECT count(*)::bigint FROM (
    (SELECT 1 FROM job_state AS s WHERE s.project = @project AND s.state IN (1, 4, 5, 6, 7) LIMIT @max_rows)
    UNION ALL
    (SELECT 1 FROM job_state AS s WHERE s.project = @project AND s.state IN (2, 3) LIMIT @max_rows)
) AS open;

-- name: CountKept :one
SELECT count(*)::bigint FROM (
    SELECT 1 FROM job_state AS s WHERE s.project = @project AND s.ended_at IS NOT NULL LIMIT @max_rows
) AS ended;

-- name: FirstEndedAfter :one
SELECT s.ended_at FROM job_state AS s
WHERE s.project = @project AND s.ended_at IS NOT NULL AND s.ended_at > @after ORDER BY s.ended_at LIMIT 1;

-- name: BlankLog :one
-- The next events of the log, whoever's they are; those of the project lose their words.
WITH part AS MATERIALIZED (
    SELECT e.position, e.project FROM events AS e WHERE e.position > @after ORDER BY e.position LIMIT @max_rows
),
blanked AS (
    UPDATE events AS e SET reason = '', detail = '', actor = '' FROM part AS p
    WHERE e.position = p.position AND p.project = @project::text
        AND (e.reason <> '' OR e.detail <> '' OR e.actor <> '')
    RETURNING 1
)
SELECT (SELECT count(*) FROM part)::bigint AS looked, coalesce((SELECT max(position) FROM part), 0)::bigint AS last,
    (SELECT count(*) FROM blanked)::bigint AS blanked;

-- name: LiveConnections :many
SELECT id FROM connections WHERE project = @project AND deleted_at IS NULL LIMIT @max_rows;

-- name: ConnectionsOf :many
SELECT id FROM connections WHERE project = @project ORDER BY created_at, id LIMIT @max_rows;

-- name: LockTurnRows :exec
SELECT connection_id FROM connection_claims WHERE connection_id = ANY (@ids::uuid[]) ORDER BY connection_id FOR UPDATE;

-- name: LockConnectionRows :exec
SELECT id FROM connections WHERE id = ANY (@ids::uuid[]) ORDER BY id FOR UPDATE;

-- name: RemoveReadyOf :exec
DELETE FROM connection_ready WHERE connection_id = ANY (@ids::uuid[]);

-- name: RemoveCredentialsOf :exec
DELETE FROM connection_credentials WHERE connection_id = ANY (@ids::uuid[]);

-- name: RemoveRenewalsOf :exec
DELETE FROM oauth_renewals WHERE connection_id = ANY (@ids::uuid[]);

-- name: RemoveCoolDownsOf :exec
-- No job is left that could be armed meanwhile.
DELETE FROM cool_downs WHERE owner = ANY (@ids::uuid[]);

-- name: RemoveLabelsOf :exec
DELETE FROM connection_labels WHERE project = @project AND connection_id = ANY (@ids::uuid[]);

-- name: RemoveTurnsOf :exec
DELETE FROM connection_claims WHERE connection_id = ANY (@ids::uuid[]);

-- name: RemoveConnections :execrows
DELETE FROM connections WHERE id = ANY (@ids::uuid[]) AND deleted_at IS NOT NULL;

-- name: RemoveLogins :execrows
DELETE FROM oauth_logins WHERE project = @project;

-- name: RemoveAPIKeys :execrows
DELETE FROM api_keys WHERE project = @project;

-- name: SetProjectErased :exec
UPDATE projects SET display_name = '', erased_at = @erased_at, erased_by = @erased_by WHERE id = @id;
