-- The queues of schedules. Their schedule is locked before they are written, so the sizes
-- that a statement reads are those that it changes.

-- name: InsertItem :exec
WITH used AS (
    INSERT INTO project_use (project, jobs, bytes) VALUES (@project, 0, octet_length(@payload::bytea))
)
INSERT INTO schedule_items (
    id, schedule_id, idem_key, fingerprint, version, state, place, payload, payload_kind, labels, firing_name, job_id,
    reason, created_at, updated_at, ended_at, created_by, updated_by
) VALUES (
    @id, @schedule_id, @idem_key, @fingerprint, @version, @state, @place, @payload::bytea, @payload_kind,
    (@labels::text)::jsonb, '', NULL, '', @created_at, @updated_at, NULL, @created_by, @updated_by
);

-- name: ItemByKey :one
SELECT * FROM schedule_items WHERE schedule_id = @schedule_id AND idem_key = @idem_key;

-- name: GetItem :one
SELECT * FROM schedule_items WHERE id = @id AND schedule_id = @schedule_id;

-- name: ItemsByID :many
SELECT * FROM schedule_items WHERE id = ANY (@ids::uuid[]);

-- name: ListedItems :many
-- Without their payloads.
SELECT
    id, schedule_id, idem_key, fingerprint, version, state, place, ''::bytea AS payload, payload_kind, labels, firing_name,
    job_id, reason, created_at, updated_at, ended_at, created_by, updated_by
FROM schedule_items WHERE id = ANY (@ids::uuid[]);

-- name: QueueOf :many
-- The items that have content.
SELECT id, place, octet_length(payload)::bigint AS size, state FROM schedule_items
WHERE schedule_id = @schedule_id AND state IN (1, 4) ORDER BY place, id;

-- name: QueueHeads :many
-- The first waiting items.
SELECT u.schedule_id::uuid AS schedule_id, o.id, o.place, o.size
FROM (SELECT unnest(@schedules::uuid[]) AS schedule_id) AS u CROSS JOIN LATERAL (
    SELECT i.id, i.place, octet_length(i.payload)::bigint AS size FROM schedule_items AS i
    WHERE i.schedule_id = u.schedule_id AND i.state IN (1, 4) AND i.state = 1
    ORDER BY i.place, i.id LIMIT @max_rows
) AS o;

-- name: EndedItems :many
-- Items that have left, the last to leave first.
SELECT id, state, ended_at, octet_length(payload)::bigint AS size FROM schedule_items
WHERE schedule_id = @schedule_id AND ended_at IS NOT NULL AND (ended_at, id) < (@after_time::timestamptz, @after_id::uuid)
ORDER BY ended_at DESC, id DESC LIMIT @max_rows;

-- name: SetItem :execrows
WITH used AS (
    INSERT INTO project_use (project, jobs, bytes)
    SELECT @project, 0, octet_length(@payload::bytea) - octet_length(i.payload) FROM schedule_items AS i
    WHERE i.id = @id AND i.version = @was_version AND octet_length(i.payload) <> octet_length(@payload::bytea)
)
UPDATE schedule_items SET
    version = @version, state = @state, payload = @payload::bytea, payload_kind = @payload_kind,
    labels = (@labels::text)::jsonb, reason = @reason, updated_at = @updated_at, ended_at = @ended_at,
    updated_by = @updated_by
WHERE schedule_items.id = @id AND schedule_items.version = @was_version;

-- name: PlaceItems :exec
WITH u AS (SELECT unnest(@ids::uuid[]) AS id, unnest(@places::bigint[]) AS place)
UPDATE schedule_items AS i SET place = u.place FROM u WHERE i.id = u.id AND i.state = 1;

-- name: EndItems :execrows
-- Items that firings used, and those that were refused.
WITH u AS (
    SELECT unnest(@ids::uuid[]) AS id, unnest(@states::smallint[]) AS state, unnest(@firing_names::text[]) AS firing_name,
        unnest(@jobs::uuid[]) AS job_id, unnest(@reasons::text[]) AS reason
),
used AS (
    INSERT INTO project_use (project, jobs, bytes)
    SELECT s.project, 0, -sum(octet_length(i.payload))
    FROM u JOIN schedule_items AS i ON i.id = u.id JOIN schedules AS s ON s.id = i.schedule_id
    WHERE i.state = 1 AND u.state <> 4 GROUP BY s.project
)
UPDATE schedule_items AS i SET
    state = u.state, firing_name = u.firing_name, job_id = u.job_id, reason = u.reason, version = i.version + 1,
    payload = CASE WHEN u.state = 4 THEN i.payload ELSE ''::bytea END,
    labels = CASE WHEN u.state = 4 THEN i.labels ELSE '{}'::jsonb END,
    updated_at = @now, ended_at = @now
FROM u WHERE i.id = u.id AND i.state = 1;

-- name: RemoveItems :exec
-- The content of a schedule that is deleted.
WITH used AS (
    INSERT INTO project_use (project, jobs, bytes)
    SELECT s.project, 0, -sum(octet_length(i.payload))
    FROM schedule_items AS i JOIN schedules AS s ON s.id = i.schedule_id
    WHERE i.schedule_id = @schedule_id AND i.state IN (1, 4) GROUP BY s.project
)
UPDATE schedule_items SET
    state = 3, version = version + 1, payload = '', labels = '{}', reason = '', updated_at = @now,
    ended_at = coalesce(ended_at, @now)
WHERE schedule_items.schedule_id = @schedule_id AND state IN (1, 4);

-- name: RemoveItemsOf :execrows
DELETE FROM schedule_items WHERE id IN (
    SELECT i.id FROM schedule_items AS i WHERE i.schedule_id = ANY (@ids::uuid[]) LIMIT @max_rows
);
