-- The queues of schedules.

-- name: InsertItem :exec
INSERT INTO schedule_items (
    id, schedule_id, idem_key, fingerprint, version, state, place, payload, payload_kind, labels, firing_name, job_id,
    reason, created_at, updated_at, ended_at, created_by, updated_by
) VALUES (
    @id, @schedule_id, @idem_key, @fingerprint, @version, @state, @place, @payload, @payload_kind, @labels,
    @firing_name, @job_id, @reason, @created_at, @updated_at, @ended_at, @created_by, @updated_by
);

-- name: ItemByKey :one
SELECT * FROM schedule_items WHERE schedule_id = @schedule_id AND idem_key = @idem_key;

-- name: GetItem :one
SELECT * FROM schedule_items WHERE id = @id AND schedule_id = @schedule_id;

-- name: ListedItem :one
-- Without its payload.
SELECT
    id, schedule_id, idem_key, fingerprint, version, state, place, CAST(x'' AS BLOB) AS payload, payload_kind, labels, firing_name,
    job_id, reason, created_at, updated_at, ended_at, created_by, updated_by
FROM schedule_items WHERE id = ?;

-- name: QueueOf :many
-- The items that have content.
SELECT id, place, CAST(length(payload) AS INTEGER) AS size, state FROM schedule_items
WHERE schedule_id = @schedule_id AND state IN (1, 4) ORDER BY place, id;

-- name: QueueHead :many
-- The first waiting items.
SELECT id, place, CAST(length(payload) AS INTEGER) AS size FROM schedule_items
WHERE schedule_id = @schedule_id AND state IN (1, 4) AND state = 1 ORDER BY place, id LIMIT @max_rows;

-- name: EndedItems :many
-- Items that have left, the last to leave first.
SELECT id, state, ended_at, CAST(length(payload) AS INTEGER) AS size FROM schedule_items
WHERE schedule_id = @schedule_id AND ended_at IS NOT NULL
    AND (ended_at < @after_time OR ended_at = @after_time AND id < @after_id)
ORDER BY ended_at DESC, id DESC LIMIT @max_rows;

-- name: SetItem :execrows
UPDATE schedule_items SET
    version = @version, state = @state, place = @place, payload = @payload, payload_kind = @payload_kind,
    labels = @labels, firing_name = @firing_name, job_id = @job_id, reason = @reason, updated_at = @updated_at,
    ended_at = @ended_at, updated_by = @updated_by
WHERE id = @id AND version = @version - 1;

-- name: PlaceItem :exec
UPDATE schedule_items SET place = @place WHERE id = @id AND state = 1;

-- name: EndItem :execrows
-- An item that a firing used, or that was refused.
UPDATE schedule_items SET
    state = @state, firing_name = @firing_name, job_id = @job_id, reason = @reason, version = version + 1,
    payload = CASE WHEN @state = 4 THEN payload ELSE x'' END, labels = CASE WHEN @state = 4 THEN labels ELSE '{}' END,
    updated_at = @ended_at, ended_at = @ended_at
WHERE id = @id AND state = 1;

-- name: RemoveItems :exec
-- The content of a schedule that is deleted.
UPDATE schedule_items SET
    state = 3, version = version + 1, payload = x'', labels = '{}', reason = '', updated_at = @now,
    ended_at = coalesce(ended_at, @now)
WHERE schedule_id = @schedule_id AND state IN (1, 4);

-- name: RemoveItemsOf :execrows
DELETE FROM schedule_items WHERE id IN (SELECT i.id FROM schedule_items AS i WHERE i.schedule_id = @schedule_id LIMIT @max_rows);
