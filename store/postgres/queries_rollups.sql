-- Counts of events in buckets of time.

-- name: RollPlace :one
-- Events up to last can be counted. newest is in the log too, but an event before it may be
-- missing.
SELECT p.position, p.at, p.owner, p.lease_until,
    coalesce((SELECT max(n.position) FROM event_pages AS n), 0)::bigint AS newest,
    coalesce((SELECT max(e.position) FROM event_pages AS e WHERE e.position <= event_horizon()), 0)::bigint AS last
FROM rollup_place AS p WHERE p.id = 1;

-- name: Connectors :many
SELECT id, connector FROM connections WHERE id = ANY (@ids::uuid[]);

-- name: Histories :many
-- The parts of the histories of jobs that have @most events before a sequence, or all.
WITH u AS (SELECT unnest(@ids::uuid[]) AS id, unnest(@befores::bigint[]) AS before)
SELECT u.id::uuid AS id, u.before::bigint AS before, h.last_sequence, h.body
FROM u JOIN job_history AS h ON h.job_id = u.id
WHERE h.last_sequence >= u.before - @most::bigint AND h.last_sequence <= coalesce((
    SELECT min(l.last_sequence) FROM job_history AS l WHERE l.job_id = u.id AND l.last_sequence >= u.before - 1
), 9223372036854775807)
UNION ALL
SELECT u.id::uuid, u.before::bigint, s.version, s.history FROM u JOIN job_state AS s ON s.job_id = u.id
ORDER BY 1, 2, 3;

-- name: MoveRoll :execrows
UPDATE rollup_place SET position = @position, at = @at, owner = @owner::uuid, lease_until = @lease_until
WHERE id = 1 AND position = @was AND (owner IS NULL OR owner = @owner::uuid OR lease_until <= @now);

-- name: AddRollups :exec
INSERT INTO rollups (project, connection_id, width, start_at, connector, class, measure, bin, count)
SELECT unnest(@projects::text[]), unnest(@connections::uuid[]), unnest(@widths::smallint[]), unnest(@starts::timestamptz[]),
    unnest(@connectors::text[]), unnest(@classes::smallint[]), unnest(@measures::smallint[]), unnest(@bins::smallint[]),
    unnest(@counts::bigint[])
ON CONFLICT (project, connection_id, width, start_at, connector, class, measure, bin)
DO UPDATE SET count = rollups.count + excluded.count;

-- name: RemoveRollups :execrows
DELETE FROM rollups AS r USING (
    SELECT o.project, o.connection_id, o.width, o.start_at, o.connector, o.class, o.measure, o.bin FROM rollups AS o
    WHERE o.width = @width AND o.start_at < @before ORDER BY o.start_at LIMIT @max_rows
) AS u
WHERE r.project = u.project AND r.connection_id = u.connection_id AND r.width = u.width AND r.start_at = u.start_at
    AND r.connector = u.connector AND r.class = u.class AND r.measure = u.measure AND r.bin = u.bin;

-- name: Rollups :many
SELECT connection_id, start_at, connector, class, measure, bin, count FROM rollups
WHERE project = @project AND connection_id = ANY (@connections::uuid[]) AND width = @width
    AND start_at >= @since AND start_at < @before;

-- name: HasRollups :one
SELECT EXISTS (SELECT 1 FROM rollups WHERE width = @width AND start_at < @before);
