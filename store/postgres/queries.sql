-- meta

-- name: GetMeta :one
SELECT * FROM meta WHERE id = 1;
