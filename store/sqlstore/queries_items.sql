-- The queues of schedules. Their schedule is locked before they are written, so the sizes
-- that a statement reads are those that it changes.

-- name: InsertItem :exec
INSERT INTO schedule_items (
    id, schedule_id, idem_key, fingerprint, version, state, place, payload, payload_kind, labels, firing_name, job_id,
    reason, created_at, updated_at, ended_at, created_by, updated_by
) VALUES (
    @id, @schedule_id, @idem_key, @fingerprint, 1, 1, @place, @payload, @payload_kind, @labels, '', NULL, '', @now, @now,
    NULL, @created_by, @created_by
);

-- name: ItemByKey :one
SELECT * FROM schedule_items WHERE schedule_id = @schedule_id AND idem_key = @idem_key;

-- name: GetItem :one
SELECT * FROM schedule_items WHERE id = @id AND schedule_id = @schedule_id;

-- name: ItemsByID :many
SELECT
    id, schedule_id, idem_key, fingerprint, version, state, place,
    CASE WHEN @payloads::boolean THEN payload ELSE ''::bytea END AS payload, payload_kind, labels, firing_name, job_id, reason,
    created_at, updated_at, ended_at, created_by, updated_by
FROM schedule_items WHERE id = ANY (@ids::uuid[]);

-- name: QueueOf :many
-- The items that have content.
SELECT id, place, octet_length(payload)::bigint AS size, state FROM schedule_items
WHERE schedule_id = @schedule_id AND state IN (1, 4) ORDER BY place, id;

-- name: EndedItems :many
-- Items that have left, the last to leave first.
SELECT id, state, ended_at, octet_length(payload)::bigint AS size FROM schedule_items
WHERE schedule_id = @schedule_id AND ended_at IS NOT NULL AND (ended_at, id) < (@after_time::timestamptz, @after_id::uuid)
ORDER BY ended_at DESC, id DESC LIMIT @max_rows;

-- name: SetItem :execrows
UPDATE schedule_items SET
    version = @version, state = @state, place = @place, payload = @payload, payload_kind = @payload_kind,
    labels = @labels, reason = @reason, updated_at = @updated_at, ended_at = @ended_at, updated_by = @updated_by
WHERE id = @id AND schedule_items.version + 1 = @version;

-- name: ShiftItems :exec
-- The waiting items from a place on.
UPDATE schedule_items SET place = schedule_items.place + @shift
WHERE schedule_id = @schedule_id AND state IN (1, 4) AND state = 1
    AND (schedule_items.place, id) >= (@first_place::bigint, @first_id::uuid);

-- name: RemoveItems :exec
-- The content of a schedule that is deleted.
UPDATE schedule_items SET
    state = 3, version = version + 1, payload = ''::bytea, labels = '{}', reason = '', updated_at = @now,
    ended_at = coalesce(ended_at, @now)
WHERE schedule_items.schedule_id = @schedule_id AND state IN (1, 4);

-- name: QueueHead :batchmany
-- The first waiting items.
SELECT id, place, octet_length(payload)::bigint AS size FROM schedule_items
WHERE schedule_id = @schedule_id AND state IN (1, 4) AND state = 1 ORDER BY place, id LIMIT @max_rows;

-- name: EndItems :execrows
-- Items that firings used, and those that were refused.
WITH u AS (
    SELECT unnest(@ids::uuid[]) AS id, unnest(@states::smallint[]) AS state, unnest(@firing_names::text[]) AS firing_name,
        nullif(unnest(@jobs::uuid[]), '00000000-0000-0000-0000-000000000000'::uuid) AS job_id, unnest(@reasons::text[]) AS reason
)
UPDATE schedule_items AS i SET
    state = u.state, firing_name = u.firing_name, job_id = u.job_id, reason = u.reason, version = i.version + 1,
    payload = CASE WHEN u.state = 4 THEN i.payload ELSE ''::bytea END,
    labels = CASE WHEN u.state = 4 THEN i.labels ELSE '{}'::jsonb END,
    updated_at = @now, ended_at = @now
FROM u WHERE i.id = u.id AND i.state = 1;
