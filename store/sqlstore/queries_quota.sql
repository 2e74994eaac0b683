-- What projects have, for quotas. The use of a project has queries of its own in each engine.

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
