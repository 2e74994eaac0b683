-- The row of retention. One server at a time cleans: the one that has locked it.

-- name: TakeRetention :many
SELECT owner, lease_until, dropped_to FROM retention WHERE id = 1 FOR UPDATE SKIP LOCKED;

-- name: LeaseRetention :exec
UPDATE retention SET owner = @owner::uuid, lease_until = @lease_until WHERE id = 1;

-- name: SetDroppedTo :exec
UPDATE retention SET dropped_to = @dropped_to WHERE id = 1;

-- name: ShareRetention :one
-- Prevents a step of retention from starting, and waits for one, because it drops events by
-- the jobs that are stored. Erasures do not wait for each other.
SELECT dropped_to FROM retention WHERE id = 1 FOR SHARE;
