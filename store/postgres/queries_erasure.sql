-- Erasure: what retention does not remove, or not yet.

-- name: ShareRetention :one
-- Prevents a step of retention from starting, and waits for one, because it drops events by
-- the jobs that are stored. Erasures do not wait for each other.
SELECT dropped_to FROM retention WHERE id = 1 FOR SHARE;

-- name: LockToErase :one
SELECT job_id, project, state, version, ended_at FROM job_state WHERE job_id = @job_id FOR UPDATE;

-- name: EraseTexts :exec
DELETE FROM event_texts WHERE job_id = ANY (@ids::uuid[]);

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

-- name: NextPages :many
-- The next pages of a project, as many as have @most events; at least one.
SELECT n.position, n.body FROM (
    SELECT p.position, p.body, sum(p.events) OVER (ORDER BY p.position) - p.events AS before
    FROM event_pages AS p WHERE p.project = @project AND p.position > @after ORDER BY p.position LIMIT @most::integer
) AS n WHERE n.before < @most::integer ORDER BY n.position;

-- name: RewritePages :exec
UPDATE event_pages AS p SET body = u.body
FROM (SELECT unnest(@positions::bigint[]) AS position, unnest(@bodies::bytea[]) AS body) AS u
WHERE p.position = u.position;

-- name: EraseTextsAt :exec
DELETE FROM event_texts WHERE position = ANY (@positions::bigint[]);

-- name: LiveConnections :many
SELECT id FROM connections WHERE project = @project AND deleted_at IS NULL LIMIT @max_rows;

-- name: ConnectionsOf :many
SELECT id FROM connections WHERE project = @project ORDER BY created_at, id LIMIT @max_rows;

-- name: LockClaimLockRows :exec
SELECT connection_id FROM connection_claims WHERE connection_id = ANY (@ids::uuid[]) ORDER BY connection_id FOR UPDATE;

-- name: LockConnectionRows :exec
SELECT id FROM connections WHERE id = ANY (@ids::uuid[]) ORDER BY id FOR UPDATE;

-- name: RemoveRunnableOf :exec
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

-- name: RemoveClaimLocksOf :exec
DELETE FROM connection_claims WHERE connection_id = ANY (@ids::uuid[]);

-- name: RemoveConnections :execrows
DELETE FROM connections WHERE id = ANY (@ids::uuid[]) AND deleted_at IS NOT NULL;

-- name: RemoveLogins :execrows
DELETE FROM oauth_logins WHERE project = @project;

-- name: RemoveAPIKeys :execrows
DELETE FROM api_keys WHERE project = @project;

-- name: SetProjectErased :exec
UPDATE projects SET display_name = '', erased_at = @erased_at, erased_by = @erased_by WHERE id = @id;
