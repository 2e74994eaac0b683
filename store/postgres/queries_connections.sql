-- Locks of a change of a connection, which is judged on its locked row.

-- name: LockClaimLock :one
-- Waits for the claim, the start and the results that are being written.
SELECT bucket_at FROM connection_claims WHERE connection_id = @id FOR UPDATE;

-- name: LockConnection :exec
-- Waits for transactions that add a runnable row, or keep the connection for a waiting job.
SELECT 1 FROM connections WHERE id = @id FOR UPDATE;

-- name: KeepConnections :many
-- Prevents their deletion until the commit, and returns which are deleted already.
SELECT id, (deleted_at IS NOT NULL)::boolean AS deleted FROM connections
WHERE id = ANY (@ids::uuid[]) ORDER BY id FOR KEY SHARE;

-- name: SetBucket :exec
INSERT INTO connection_claims (connection_id, bucket_at) VALUES (@connection_id, @bucket_at)
ON CONFLICT (connection_id) DO UPDATE SET bucket_at = excluded.bucket_at;

-- name: LockRunnableOf :exec
SELECT 1 FROM connection_ready WHERE connection_id = @connection_id ORDER BY hold_key FOR UPDATE;
