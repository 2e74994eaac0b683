-- ready rows

-- name: GetReady :one
SELECT * FROM connection_ready WHERE connection_id = $1 AND hold_key = $2;
