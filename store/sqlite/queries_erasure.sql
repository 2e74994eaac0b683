-- Erasure: what retention does not remove, or not yet.

-- name: RemoveTextsOf :exec
DELETE FROM event_texts WHERE job_id = ?;

-- name: InsertErasedJob :exec
INSERT INTO erased_jobs (
    job_id, project, key_digest, state, class, attempts, proof, effect_at, object_digest,
    schedule_time, created_at, ended_at, erased_at, actor
) VALUES (
    @job_id, @project, @key_digest, @state, @class, @attempts, @proof, @effect_at, @object_digest,
    @schedule_time, @created_at, @ended_at, @erased_at, @actor
);

-- name: GetErasedJob :one
SELECT * FROM erased_jobs WHERE job_id = ?;

-- name: FirstReply :one
SELECT r.id FROM jobs AS r WHERE r.reply_to = ? LIMIT 1;

-- name: SomeOfState :many
SELECT s.schedule_time FROM job_state AS s WHERE s.project = @project AND s.state = @state LIMIT @max_rows;

-- name: FirstEndedAfter :one
SELECT s.ended_at FROM job_state AS s
WHERE s.project = @project AND s.state = @state AND s.ended_at IS NOT NULL AND s.ended_at > @after
ORDER BY s.ended_at LIMIT 1;

-- name: SetPageBody :exec
UPDATE event_pages SET body = @body WHERE position = @position;

-- name: LiveConnections :many
SELECT id FROM connections WHERE project = @project AND deleted_at IS NULL LIMIT @max_rows;

-- name: ConnectionsOf :many
SELECT id FROM connections WHERE project = @project ORDER BY created_at, id LIMIT @max_rows;

-- name: RemoveConnectionLabels :exec
DELETE FROM connection_labels WHERE connection_id = @connection_id AND project = @project;

-- name: RemoveCoolDown :exec
DELETE FROM cool_downs WHERE owner = ?;

-- name: RemoveRenewal :exec
DELETE FROM oauth_renewals WHERE connection_id = ?;

-- name: BlankConnection :exec
-- The row stays, without a project: to remove it SQLite would search all jobs for its own.
UPDATE connections SET
    project = '', display_name = '', settings = x'', account_identity = '', labels = '{}', paused_reason = '',
    credential_fingerprint = '', idem_key = '', fingerprint = x'', created_by = '', updated_by = ''
WHERE id = @id AND deleted_at IS NOT NULL;

-- name: RemoveLogins :execrows
DELETE FROM oauth_logins WHERE project = ?;

-- name: RemoveAPIKeys :execrows
DELETE FROM api_keys WHERE project = ?;

-- name: SetProjectErased :exec
UPDATE projects SET display_name = '', erased_at = @erased_at, erased_by = @erased_by WHERE id = @id;
