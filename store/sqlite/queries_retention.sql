-- name: SetDroppedTo :exec
UPDATE meta SET dropped_to = @dropped_to WHERE id = 1;
