-- What projects have, for quotas.

-- name: AddUse :exec
INSERT INTO project_use (project, jobs, bytes) VALUES (@project, @jobs, @bytes)
ON CONFLICT (project) DO UPDATE SET jobs = jobs + excluded.jobs, bytes = bytes + excluded.bytes;

-- name: StoredJobs :one
SELECT jobs, bytes FROM project_use WHERE project = @project;

-- name: CountConnections :one
SELECT count(*) FROM connections WHERE project = @project AND deleted_at IS NULL;

-- name: CountAPIKeys :one
-- Keys that are live at now.
SELECT count(*) FROM api_keys
WHERE project = @project AND revoked_at IS NULL AND (expires_at IS NULL OR expires_at > @now);

-- name: CountLogins :one
-- Logins that may still be completed at now.
SELECT count(*) FROM oauth_logins WHERE project = @project AND expires_at > @now;
