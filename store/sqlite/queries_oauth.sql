-- Logins at platforms, and leases to renew their tokens.

-- name: StartLogin :exec
INSERT INTO oauth_logins (state, project, actor, app, target, key_id, sealed, redirect_url, return_url, expires_at)
VALUES (@state, @project, @actor, @app, @target, @key_id, @sealed, @redirect_url, @return_url, @expires_at);

-- name: DropOldLogins :exec
DELETE FROM oauth_logins
WHERE state IN (SELECT o.state FROM oauth_logins AS o WHERE o.expires_at <= @now ORDER BY o.expires_at LIMIT 100);

-- name: GetLogin :one
SELECT * FROM oauth_logins WHERE state = @state;

-- name: DropLogin :exec
DELETE FROM oauth_logins WHERE state = @state;

-- name: CredentialVersion :one
SELECT credential_version FROM connections WHERE id = @id;

-- name: GetRenewal :one
SELECT * FROM oauth_renewals WHERE connection_id = @connection_id;

-- name: SetRenewal :exec
INSERT INTO oauth_renewals (connection_id, version, owner, until, tries, begun_at, before_at)
VALUES (@connection_id, @version, @owner, @until, @tries, @begun_at, @before_at)
ON CONFLICT (connection_id) DO UPDATE SET
    version = excluded.version, owner = excluded.owner, until = excluded.until, tries = excluded.tries,
    begun_at = excluded.begun_at, before_at = excluded.before_at;
