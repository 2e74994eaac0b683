-- Changes of connections. A connection is judged on its locked row.

-- name: LockClaimLock :one
-- Waits for the claim, the start and the results that are being written.
SELECT bucket_at FROM connection_claims WHERE connection_id = @id FOR UPDATE;

-- name: LockConnection :execrows
-- Waits for transactions that add a runnable row, or keep the connection for a waiting job.
SELECT 1 FROM connections WHERE id = @id AND project = @project FOR UPDATE;

-- name: KeepConnections :many
-- Prevents their deletion until the commit, and returns which are deleted already.
SELECT id, (deleted_at IS NOT NULL)::boolean AS deleted FROM connections
WHERE id = ANY (@ids::uuid[]) ORDER BY id FOR KEY SHARE;

-- name: SetConnection :exec
UPDATE connections SET
    display_name = @display_name, labels = (@labels::text)::jsonb, settings = @settings, class = @class, key_window = @key_window,
    account_identity = @account_identity, max_in_flight = @max_in_flight, max_per_minute = @max_per_minute, cool_down = @cool_down,
    paused_at = @paused_at, paused_reason = @paused_reason, credential_version = @credential_version,
    credential_fingerprint = @credential_fingerprint, credential_expires_at = @credential_expires_at,
    version = @version, updated_at = @updated_at, deleted_at = @deleted_at, updated_by = @updated_by
WHERE id = @id;

-- name: SetBucket :exec
UPDATE connection_claims SET bucket_at = @bucket_at WHERE connection_id = @connection_id;

-- name: SetSeal :execrows
UPDATE connection_credentials SET key_id = @key_id, data = @data
WHERE connection_id = @connection_id AND version = @version;

-- name: DropCredentials :exec
DELETE FROM connection_credentials WHERE connection_id = @connection_id;

-- name: LockRunnableOf :exec
SELECT 1 FROM connection_ready WHERE connection_id = @connection_id ORDER BY hold_key FOR UPDATE;

-- name: SetRunnableOf :exec
-- A row that loses a bound is served as if the bound had never existed.
UPDATE connection_ready SET
    paused = @paused,
    auth_hold_at = CASE WHEN @rotated::boolean THEN NULL ELSE auth_hold_at END,
    auth_hold_reason = CASE WHEN @rotated::boolean THEN '' ELSE auth_hold_reason END,
    auth_hold_cause = CASE WHEN @rotated::boolean THEN 0 ELSE auth_hold_cause END,
    saturated = saturated AND NOT @bounded::boolean,
    paced_until = CASE WHEN @bounded::boolean THEN least(paced_until, @paced_until) ELSE paced_until END
WHERE connection_id = @connection_id;

-- name: WakeLooks :exec
-- Looks and polls that waited for a credential. No change of their jobs: no version, no
-- event. A row that another transaction writes to is skipped: that transaction may wait for
-- the connection's claim lock.
UPDATE job_state SET next_at = @now
WHERE ctid = ANY (ARRAY(
    SELECT s.ctid FROM job_state AS s
    WHERE s.state IN (4, 5) AND s.next_at > @now AND s.connection_id = @connection_id AND s.blocked <> ''
        AND s.claim_token IS NULL
    FOR NO KEY UPDATE SKIP LOCKED
));

-- name: DropRunnableOf :exec
DELETE FROM connection_ready WHERE connection_id = @connection_id;

-- name: ConnectionInUse :one
-- Whether any of its jobs is not terminal; each part has an index.
SELECT (
    EXISTS (SELECT 1 FROM job_state AS s WHERE s.connection_id = @id AND s.state IN (1, 6) AND s.waits_for IS NULL)
    OR EXISTS (SELECT 1 FROM job_state AS s WHERE s.connection_id = @id AND s.state IN (2, 3))
    OR EXISTS (SELECT 1 FROM job_state AS s WHERE s.connection_id = @id AND s.waits_for IS NOT NULL AND s.state IN (1, 6))
    OR EXISTS (SELECT 1 FROM job_state AS s WHERE s.connection_id = @id AND s.project = @project
        AND s.state IN (1, 4, 5, 6, 7, 8, 9, 10, 11) AND s.state IN (4, 5, 7))
)::boolean AS used;

-- name: MissedIDs :many
SELECT s.job_id
FROM connections AS c
JOIN connection_ready AS r ON r.connection_id = c.id
JOIN job_state AS s ON s.connection_id = r.connection_id AND s.hold_key = r.hold_key
    AND s.state IN (1, 6) AND s.waits_for IS NULL AND s.next_at >= c.paused_at
WHERE c.id = @id AND c.project = @project AND s.next_at <= @now AND s.start_deadline > @now
LIMIT @max_rows;
