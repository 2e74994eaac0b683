-- Logins at platforms, and leases to renew their tokens.

-- name: StartLogin :exec
INSERT INTO oauth_logins (state, project, actor, app, target, key_id, sealed, redirect_url, return_url, expires_at)
VALUES (@state, @project, @actor, @app, @target, @key_id, @sealed, @redirect_url, @return_url, @expires_at);

-- name: DropOldLogins :exec
DELETE FROM oauth_logins WHERE state IN (
    SELECT o.state FROM oauth_logins AS o WHERE o.expires_at <= @now ORDER BY o.expires_at LIMIT 100
    FOR UPDATE SKIP LOCKED);

-- name: GetLogin :one
SELECT * FROM oauth_logins WHERE state = @state AND expires_at > @now;

-- name: TakeLogin :one
-- Of several concurrent callers, one deletes the row and gets it.
DELETE FROM oauth_logins
WHERE state = @state AND (@project::text = '' OR project = @project) AND expires_at > @now RETURNING *;

-- name: LockRenewal :one
-- Adds the row where it is missing.
INSERT INTO oauth_renewals (connection_id, version, until, tries)
SELECT c.id, 0, @until::timestamptz, 0 FROM connections AS c WHERE c.id = @connection_id
ON CONFLICT (connection_id) DO UPDATE SET version = oauth_renewals.version
RETURNING *;

-- name: CredentialVersion :one
SELECT credential_version FROM connections WHERE id = @id;

-- name: SetRenewal :exec
UPDATE oauth_renewals SET
    version = @version, owner = @owner, until = @until, tries = @tries, begun_at = @begun_at, before_at = @before_at
WHERE connection_id = @connection_id;

-- name: EndRenewal :exec
UPDATE oauth_renewals SET owner = NULL, until = @until, tries = tries - @unspent::bigint
WHERE connection_id = @connection_id AND owner = @owner;
