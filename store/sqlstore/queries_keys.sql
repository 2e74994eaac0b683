-- Keys that seal credentials, and keys of clients.

-- name: KeyUse :many
SELECT key_id, count(*) AS credentials FROM connection_credentials GROUP BY key_id ORDER BY key_id;

-- name: LoginKeyUse :many
SELECT key_id, count(*) AS logins FROM oauth_logins WHERE expires_at > @now GROUP BY key_id;

-- name: CredentialsOfOthers :many
-- Credentials that another key seals, after a place.
SELECT d.connection_id, d.version, d.key_id, d.data, c.project, c.connector, c.settings, c.account_identity
FROM connection_credentials AS d JOIN connections AS c ON c.id = d.connection_id
WHERE (d.connection_id, d.version) > (@connection_id::uuid, @version::bigint) AND d.key_id <> @key_id
ORDER BY d.connection_id, d.version LIMIT @max_rows;

-- name: Reseal :execrows
UPDATE connection_credentials SET key_id = @new_key_id, data = @new_data
WHERE connection_id = @connection_id AND version = @version AND key_id = @key_id AND data = @data;

-- name: InsertProject :exec
INSERT INTO projects (id, created_at) VALUES (@id, @now) ON CONFLICT (id) DO NOTHING;

-- name: Projects :many
SELECT id, created_at, erased_at, erased_by FROM projects WHERE id > @after ORDER BY id LIMIT @max_rows;

-- name: LockProject :one
-- Waits only for other transactions that create a key of the project.
SELECT id FROM projects WHERE id = @id FOR NO KEY UPDATE;

-- name: NameTaken :one
SELECT EXISTS (
    SELECT 1 FROM api_keys
    WHERE project = @project AND name = @name AND name <> '' AND revoked_at IS NULL AND (expires_at IS NULL OR expires_at > @now::timestamptz)
);

-- name: InsertAPIKey :exec
INSERT INTO api_keys (id, project, name, hash, scopes, created_at, expires_at)
VALUES (@id, @project, @name, @hash, @scopes, @now, @expires_at);

-- name: GetAPIKey :one
SELECT * FROM api_keys WHERE id = @id;

-- name: ListAPIKeys :many
SELECT * FROM api_keys
WHERE id > @after AND (@project::text = '' OR project = @project) ORDER BY id LIMIT @max_rows;

-- name: RevokeAPIKey :exec
UPDATE api_keys SET revoked_at = @now::timestamptz WHERE id = @id AND revoked_at IS NULL;

-- name: TouchAPIKey :execrows
UPDATE api_keys SET last_used_at = @now::timestamptz
WHERE id = @id AND (last_used_at IS NULL OR last_used_at <= @before::timestamptz);

-- name: CredentialKeys :many
-- From key to key, each by the index: there are few keys and many credentials.
WITH RECURSIVE k AS (
    SELECT f.key_id FROM (SELECT key_id FROM connection_credentials ORDER BY key_id LIMIT 1) AS f
    UNION ALL
    SELECT (SELECT c.key_id FROM connection_credentials AS c WHERE c.key_id > k.key_id ORDER BY c.key_id LIMIT 1)
    FROM k WHERE k.key_id IS NOT NULL
)
SELECT k.key_id::text AS key_id FROM k WHERE k.key_id IS NOT NULL;
