-- What projects have, for quotas.

-- name: StoredJobs :one
-- The sum of a project's rows, and how many there are.
SELECT coalesce(sum(jobs), 0)::bigint AS jobs, coalesce(sum(bytes), 0)::bigint AS bytes, count(*) AS parts
FROM project_use WHERE project = @project;

-- name: CountConnections :one
SELECT count(*) FROM connections WHERE project = @project AND deleted_at IS NULL;

-- name: CountAPIKeys :one
-- Keys that are live at now.
SELECT count(*) FROM api_keys
WHERE project = @project AND revoked_at IS NULL AND (expires_at IS NULL OR expires_at > @now::timestamptz);

-- name: CountLogins :one
-- Logins that may still be completed at now.
SELECT count(*) FROM oauth_logins WHERE project = @project AND expires_at > @now;

-- name: CountSchedules :one
SELECT count(*) FROM schedules WHERE project = @project AND state < 4;
