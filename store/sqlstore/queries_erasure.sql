-- Erasure: what retention does not remove, or not yet.

-- name: LockToErase :one
SELECT project, version, ended_at FROM job_state WHERE job_id = @job_id FOR UPDATE;

-- name: EraseTexts :exec
DELETE FROM event_texts WHERE job_id = ANY (@ids::uuid[]);

-- name: InsertErasedJob :batchexec
INSERT INTO erased_jobs (
    job_id, project, key_digest, state, class, attempts, proof, effect_at, object_digest,
    schedule_time, created_at, ended_at, erased_at, actor
) VALUES (
    @job_id, @project, @key_digest, @state, @class, @attempts, @proof, @effect_at, @object_digest,
    @schedule_time, @created_at, @ended_at, @erased_at, @actor
);

-- name: GetErasedJob :one
SELECT * FROM erased_jobs WHERE job_id = @job_id AND project = @project;

-- name: CountRest :one
-- Jobs that have not ended, jobs that have, each up to a number, and the first end after a
-- time. Those under way are found by another index.
SELECT (SELECT count(*) FROM (
        SELECT 1 FROM job_state AS w WHERE w.project = @project AND w.state IN (1, 4, 5, 6, 7) LIMIT @max_rows
    ) AS waiting) AS waiting,
    (SELECT count(*) FROM (
        SELECT 1 FROM job_state AS u WHERE u.project = @project AND u.state IN (2, 3) LIMIT @max_rows
    ) AS under_way) AS under_way,
    (SELECT count(*) FROM (
        SELECT 1 FROM job_state AS e WHERE e.project = @project AND e.ended_at IS NOT NULL LIMIT @max_rows
    ) AS ended) AS ended,
    (SELECT min(f.ended_at) FROM job_state AS f WHERE f.project = @project AND f.ended_at > @after)::timestamptz AS first_end;

-- name: NextPages :many
SELECT position, body FROM event_pages WHERE project = @project AND position > @after ORDER BY position LIMIT @max_rows;

-- name: RewritePage :batchexec
UPDATE event_pages SET body = @body WHERE position = @position;

-- name: EraseTextsAt :exec
DELETE FROM event_texts WHERE position = ANY (@positions::bigint[]);

-- schedules

-- name: LockSchedulesOf :many
SELECT id FROM schedules WHERE project = @project ORDER BY created_at, id LIMIT @max_rows FOR UPDATE;

-- name: RemoveFiringsOf :execrows
DELETE FROM firings WHERE (schedule_id, name) IN (
    SELECT f.schedule_id, f.name FROM firings AS f WHERE f.schedule_id = ANY (@ids::uuid[]) LIMIT @max_rows
);

-- name: RemoveItemsOf :execrows
DELETE FROM schedule_items WHERE id IN (
    SELECT i.id FROM schedule_items AS i WHERE i.schedule_id = ANY (@ids::uuid[]) LIMIT @max_rows
);

-- name: RemoveSchedules :exec
DELETE FROM schedules WHERE id = ANY (@ids::uuid[]);

-- connections

-- name: LiveConnections :many
SELECT id FROM connections WHERE project = @project AND deleted_at IS NULL LIMIT @max_rows;

-- name: ConnectionsOf :many
-- Deleted ones: another transaction may add one after LiveConnections.
SELECT id FROM connections WHERE project = @project AND deleted_at IS NOT NULL ORDER BY created_at, id LIMIT @max_rows;

-- name: RemoveLabelsOf :exec
DELETE FROM connection_labels WHERE project = @project AND connection_id = ANY (@ids::uuid[]);

-- name: RemoveCoolDowns :exec
-- No job is left that could be armed meanwhile.
DELETE FROM cool_downs WHERE owner = ANY (@ids::uuid[]);

-- name: RemoveCredentialsOf :exec
DELETE FROM connection_credentials WHERE connection_id = ANY (@ids::uuid[]);

-- name: RemoveRenewalsOf :exec
DELETE FROM oauth_renewals WHERE connection_id = ANY (@ids::uuid[]);

-- name: BlankConnection :batchexec
-- The row stays, without a project: to remove it SQLite would search all jobs for its own.
UPDATE connections SET
    project = '', display_name = '', settings = ''::bytea, account_identity = '', labels = '{}', paused_reason = '',
    credential_fingerprint = '', idem_key = '', fingerprint = ''::bytea, created_by = '', updated_by = ''
WHERE id = @id AND deleted_at IS NOT NULL;

-- the project

-- name: RemoveLogins :execrows
DELETE FROM oauth_logins WHERE project = @project;

-- name: RemoveAPIKeys :execrows
DELETE FROM api_keys WHERE project = @project;

-- name: RemoveStops :execrows
DELETE FROM stops WHERE project = @project;

-- name: SetProjectErased :exec
UPDATE projects SET display_name = '', erased_at = @now::timestamptz, erased_by = @erased_by WHERE id = @id;
