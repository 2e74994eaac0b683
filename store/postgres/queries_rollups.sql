-- Counts of events in buckets of time.

-- name: RollPlace :one
-- Events up to last can be counted. newest is there too, but one before it may be missing.
SELECT p.position, p.at, p.owner, p.lease_until,
    coalesce((SELECT max(n.position) FROM events AS n), 0)::bigint AS newest,
    coalesce((SELECT max(e.position) FROM events AS e WHERE e.position <= event_horizon()), 0)::bigint AS last
FROM rollup_place AS p WHERE p.id = 1;

-- name: RollEvents :many
-- The next events. The rest of what a roll asks for is read of those alone that count.
SELECT
    e.position, e.project, e.job_id, e.connection_id, e.sequence, e.from_state, e.to_state, e.cause, e.attempt, e.at,
    coalesce(c.connector, '')::text AS connector, coalesce(s.class, c.class, 0)::smallint AS class,
    coalesce(a.lag, -1)::bigint AS start_lag
FROM (
    SELECT * FROM events AS l WHERE l.position > @after AND l.position <= event_horizon()
    ORDER BY l.position LIMIT @max_rows
) AS e
LEFT JOIN connections AS c ON e.from_state <> e.to_state AND e.to_state <> 2 AND c.id = e.connection_id
LEFT JOIN job_state AS s ON e.from_state <> e.to_state AND e.to_state <> 2 AND s.job_id = e.job_id
LEFT JOIN attempts AS a ON e.to_state = 3 AND e.attempt = 1 AND a.job_id = e.job_id AND a.number = 1
ORDER BY e.position;

-- name: RollPast :many
-- The newest first.
WITH u AS (SELECT unnest(@ids::uuid[]) AS id, unnest(@befores::bigint[]) AS before)
SELECT u.id::uuid AS id, u.before::bigint AS before, p.sequence, p.to_state, p.at FROM u CROSS JOIN LATERAL (
    SELECT e.sequence, e.to_state, e.at FROM events AS e
    WHERE e.job_id = u.id AND e.sequence < u.before ORDER BY e.sequence DESC LIMIT @max_rows
) AS p
ORDER BY u.id, u.before, p.sequence;

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
