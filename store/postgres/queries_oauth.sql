-- Logins at platforms, and leases to renew their tokens.

-- name: StartLogin :exec
INSERT INTO oauth_logins (state, project, actor, app, target, key_id, sealed, redirect_url, return_url, expires_at)
VALUES (@state, @project, @actor, @app, @target, @key_id, @sealed, @redirect_url, @return_url, @expires_at);

-- name: DropOldLogins :exec
DELETE FROM oauth_logins WHERE state IN (
    SELECT o.state FROM oauth_logins AS o WHERE o.expires_at <= @now ORDER BY o.expires_at LIMIT 100
    FOR UPDATE SKIP LOCKED);

-- name: GetLogin :one
SELECT * FROM oauth_logins WHERE state = @state;

-- name: TakeLogin :one
-- Of several concurrent callers, one deletes the row and gets it.
DELETE FROM oauth_logins WHERE state = @state AND (@project::text = '' OR project = @project) RETURNING *;

-- name: CredentialVersion :one
SELECT credential_version FROM connections WHERE id = @id;

-- name: AddRenewal :exec
INSERT INTO oauth_renewals (connection_id, version, until, tries) VALUES (@connection_id, 0, 'epoch', 0)
ON CONFLICT (connection_id) DO NOTHING;

-- name: LockRenewal :one
SELECT * FROM oauth_renewals WHERE connection_id = @connection_id FOR UPDATE;

-- name: SetRenewal :exec
UPDATE oauth_renewals SET
    version = @version, owner = @owner, until = @until, tries = @tries, begun_at = @begun_at, before_at = @before_at
WHERE connection_id = @connection_id;
