-- The queues of schedules. Their schedule is locked before they are written, so the sizes
-- that a statement reads are those that it changes.

-- name: QueueHeads :many
-- The first waiting items.
SELECT u.schedule_id::uuid AS schedule_id, o.id, o.place, o.size
FROM (SELECT unnest(@schedules::uuid[]) AS schedule_id) AS u CROSS JOIN LATERAL (
    SELECT i.id, i.place, octet_length(i.payload)::bigint AS size FROM schedule_items AS i
    WHERE i.schedule_id = u.schedule_id AND i.state IN (1, 4) AND i.state = 1
    ORDER BY i.place, i.id LIMIT @max_rows
) AS o;

-- name: EndItems :execrows
-- Items that firings used, and those that were refused.
WITH u AS (
    SELECT unnest(@ids::uuid[]) AS id, unnest(@states::smallint[]) AS state, unnest(@firing_names::text[]) AS firing_name,
        nullif(unnest(@jobs::uuid[]), '00000000-0000-0000-0000-000000000000'::uuid) AS job_id, unnest(@reasons::text[]) AS reason
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
