-- name: Connections :many
-- With the holds on their hold keys: the oldest refused credential, the longest
-- rate limit. SQLite keeps the row of an erased connection, without a project.
SELECT
    sqlc.embed(c), h.auth_hold_at,
    coalesce(h.auth_hold_reason, '')::text AS auth_hold_reason,
    coalesce(h.auth_hold_cause, 0)::smallint AS auth_hold_cause,
    (SELECT max(r.rate_limited_until) FROM connection_ready AS r
    WHERE r.connection_id = c.id AND r.rate_limited_until > 'epoch')::timestamptz AS limited_until
FROM connections AS c
LEFT JOIN connection_ready AS h ON h.connection_id = c.id AND h.hold_key = (
    SELECT r.hold_key FROM connection_ready AS r /* SQLite: r INDEXED BY connection_ready_auth */
    WHERE r.connection_id = c.id AND r.auth_hold_at IS NOT NULL ORDER BY r.auth_hold_at, r.hold_key LIMIT 1)
WHERE c.id = ANY (@ids::uuid[]) AND c.project <> '';

-- name: ConnectionByKey :one
SELECT id FROM connections WHERE project = @project AND idem_key = @idem_key AND idem_key <> '';

-- name: ConnectionPlace :one
SELECT created_at FROM connections WHERE id = @id;

-- name: HoldOf :one
SELECT auth_hold_at, auth_hold_reason, auth_hold_cause, rate_limited_until FROM connection_ready
WHERE connection_id = @connection_id AND hold_key = @hold_key;

-- name: NewestCredential :one
-- With what its connection is sealed for.
SELECT sqlc.embed(d), c.project, c.connector, c.settings, c.account_identity
FROM connection_credentials AS d JOIN connections AS c ON c.id = d.connection_id
WHERE d.connection_id = @connection_id ORDER BY d.version DESC LIMIT 1;

-- name: InsertConnection :execrows
-- SetConnection writes the rest.
INSERT INTO connections (
    id, project, connector, idem_key, fingerprint, created_at, created_by, class, settings,
    display_name, labels, key_window, account_identity, max_in_flight, max_per_minute, cool_down, version, updated_at
) VALUES (
    @id, @project, @connector, @idem_key, @fingerprint, @now, @created_by, @class, @settings,
    '', '{}', 0, '', 0, 0, 0, 1, @now
)
ON CONFLICT (project, idem_key) WHERE idem_key <> '' DO NOTHING;

-- name: InsertCredential :exec
INSERT INTO connection_credentials (connection_id, version, key_id, data, fingerprint, expires_at, created_at)
VALUES (@connection_id, @version, @key_id, @data, @fingerprint, @expires_at, @created_at);

-- name: SetConnection :exec
UPDATE connections SET
    display_name = @display_name, labels = (@labels::text)::jsonb, settings = @settings, class = @class, key_window = @key_window,
    account_identity = @account_identity, max_in_flight = @max_in_flight, max_per_minute = @max_per_minute, cool_down = @cool_down, retry = @retry,
    paused_at = @paused_at, paused_reason = @paused_reason, credential_version = @credential_version,
    credential_fingerprint = @credential_fingerprint, credential_expires_at = @credential_expires_at, credential_renews = @credential_renews,
    version = @version, updated_at = @updated_at, deleted_at = @deleted_at, updated_by = @updated_by
WHERE id = @id;

-- name: SetSeal :execrows
UPDATE connection_credentials SET key_id = @key_id, data = @data
WHERE connection_id = @connection_id AND version = @version;

-- name: SetRunnableOf :exec
-- A row that loses a bound is served as if the bound had never existed.
UPDATE connection_ready SET
    paused = @paused,
    auth_hold_at = CASE WHEN @rotated::boolean THEN NULL ELSE auth_hold_at END,
    auth_hold_reason = CASE WHEN @rotated::boolean THEN '' ELSE auth_hold_reason END,
    auth_hold_cause = CASE WHEN @rotated::boolean THEN 0 ELSE auth_hold_cause END,
    saturated = saturated AND NOT @bounded::boolean,
    paced_until = CASE WHEN @bounded::boolean THEN least(paced_until, @paced_until) ELSE paced_until END
WHERE connection_id = @connection_id AND (
    paused <> @paused OR @rotated::boolean AND auth_hold_at IS NOT NULL
    OR @bounded::boolean AND (saturated OR paced_until > @paced_until)
);

-- name: DropRunnableOf :exec
DELETE FROM connection_ready WHERE connection_id = @connection_id;

-- name: WakeLooks :exec
-- Looks and polls that waited for a credential. No change of their jobs: no version, no
-- event. A row that another transaction writes to is skipped: that transaction may wait for
-- the connection's claim lock.
UPDATE job_state SET next_at = @now
WHERE job_id IN (
    SELECT s.job_id FROM job_state AS s
    WHERE s.state IN (4, 5) AND s.next_at > @now AND s.connection_id = @connection_id AND s.blocked <> ''
        AND s.claim_token IS NULL
    FOR NO KEY UPDATE SKIP LOCKED
);

-- name: ConnectionInUse :one
-- Whether any of its jobs is not terminal; each part has an index.
SELECT (
    EXISTS (SELECT 1 FROM job_state AS s WHERE s.connection_id = @id AND s.state IN (1, 6) AND s.waits_for IS NULL)
    OR EXISTS (SELECT 1 FROM job_state AS s WHERE s.connection_id = @id AND s.state IN (2, 3))
    OR EXISTS (SELECT 1 FROM job_state AS s WHERE s.connection_id = @id AND s.waits_for IS NOT NULL AND s.state IN (1, 6))
    OR EXISTS (SELECT 1 FROM job_state AS s WHERE s.connection_id = @id AND s.project = ANY (@projects::text[])
        AND s.state IN (1, 4, 5, 6, 7, 8, 9, 10, 11) AND s.state /* SQLite: s.listed */ IN (4, 5, 7))
)::boolean AS used;

-- name: MissedIDs :many
SELECT s.job_id
FROM connections AS c
JOIN connection_ready AS r ON r.connection_id = c.id
JOIN job_state AS s ON s.connection_id = r.connection_id AND s.hold_key = r.hold_key
    AND s.state IN (1, 6) AND s.waits_for IS NULL AND s.next_at >= c.paused_at
WHERE c.id = @id AND c.project = @project AND s.project = c.project AND s.next_at <= @now AND s.start_deadline > @now
LIMIT @max_rows;
