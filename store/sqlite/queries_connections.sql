-- Changes of connections.

-- name: SetConnection :exec
UPDATE connections SET
    display_name = @display_name, labels = @labels, settings = @settings, class = @class, key_window = @key_window,
    account_identity = @account_identity, max_in_flight = @max_in_flight, max_per_minute = @max_per_minute, cool_down = @cool_down,
    bucket_at = @bucket_at, paused_at = @paused_at, paused_reason = @paused_reason,
    credential_version = @credential_version, credential_fingerprint = @credential_fingerprint,
    credential_expires_at = @credential_expires_at, version = @version, updated_at = @updated_at,
    deleted_at = @deleted_at, updated_by = @updated_by
WHERE id = @id;

-- name: SetSeal :execrows
UPDATE connection_credentials SET key_id = @key_id, data = @data
WHERE connection_id = @connection_id AND version = @version;

-- name: DropCredentials :exec
DELETE FROM connection_credentials WHERE connection_id = ?;

-- name: PauseRunnable :exec
UPDATE connection_ready SET paused = @paused WHERE connection_id = @connection_id AND paused <> @paused;

-- name: LiftAuth :execrows
UPDATE connection_ready SET auth_hold_at = NULL, auth_hold_reason = '', auth_hold_cause = 0
WHERE connection_id = ? AND auth_hold_at IS NOT NULL;

-- name: WakeLooks :exec
-- Looks and polls that waited for a credential. No change of their jobs: no version, no
-- event.
UPDATE job_state SET next_at = @now
WHERE state IN (4, 5) AND next_at > @now AND connection_id = @connection_id AND blocked <> '' AND claim_token IS NULL;

-- name: Unbound :exec
-- A row that loses a bound is served as if the bound had never existed.
UPDATE connection_ready SET saturated = 0, paced_until = min(paced_until, CAST(@paced_until AS INTEGER))
WHERE connection_id = @connection_id;

-- name: DropRunnableOf :exec
DELETE FROM connection_ready WHERE connection_id = ?;

-- name: ConnectionInUse :one
-- Whether any of its jobs is not terminal; each part has an index.
SELECT CAST(
    EXISTS (SELECT 1 FROM job_state AS a WHERE a.connection_id = @id AND a.state IN (1, 6) AND a.waits_for IS NULL)
    OR EXISTS (SELECT 1 FROM job_state AS b WHERE b.connection_id = @id AND b.state IN (2, 3))
    OR EXISTS (SELECT 1 FROM job_state AS c WHERE c.connection_id = @id AND c.state IN (1, 6) AND c.waits_for IS NOT NULL)
    OR EXISTS (SELECT 1 FROM job_state AS d WHERE d.project = @project AND d.listed IN (4, 5, 7) AND d.connection_id = @id)
AS INTEGER) AS used;

-- name: MissedIDs :many
SELECT s.job_id
FROM connections AS c
JOIN connection_ready AS r ON r.connection_id = c.id
JOIN job_state AS s ON s.connection_id = r.connection_id AND s.hold_key = r.hold_key
    AND s.state IN (1, 6) AND s.waits_for IS NULL AND s.next_at >= c.paused_at
WHERE c.id = @id AND c.project = @project AND s.next_at <= @now AND s.start_deadline > @now
LIMIT @max_rows;

-- name: InsertConnectionLabels :exec
INSERT INTO connection_labels (project, name, value, created_at, connection_id)
SELECT c.project, l.key, l.value, c.created_at, c.id FROM connections AS c, json_each(c.labels) AS l WHERE c.id = @id;

-- name: DropConnectionLabels :exec
DELETE FROM connection_labels
WHERE (project, name, value, created_at, connection_id) IN (
    SELECT c.project, l.key, l.value, c.created_at, c.id FROM connections AS c, json_each(c.labels) AS l WHERE c.id = @id);
