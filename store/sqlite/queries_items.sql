-- The queues of schedules.

-- name: QueueHead :many
-- The first waiting items.
SELECT id, place, CAST(length(payload) AS INTEGER) AS size FROM schedule_items
WHERE schedule_id = @schedule_id AND state IN (1, 4) AND state = 1 ORDER BY place, id LIMIT @max_rows;

-- name: EndItem :execrows
-- An item that a firing used, or that was refused.
UPDATE schedule_items SET
    state = @state, firing_name = @firing_name, job_id = @job_id, reason = @reason, version = version + 1,
    payload = CASE WHEN @state = 4 THEN payload ELSE x'' END, labels = CASE WHEN @state = 4 THEN labels ELSE '{}' END,
    updated_at = @ended_at, ended_at = @ended_at
WHERE id = @id AND state = 1;
