-- Counts of events in buckets of time.

-- name: RollPlace :one
SELECT position, at FROM rollup_place WHERE id = 1;

-- name: RollEvents :many
-- The next events. The rest of what a roll asks for is read of those alone that count.
SELECT
    e.position, e.project, e.job_id, e.connection_id, e.sequence, e.from_state, e.to_state, e.cause, e.attempt, e.at,
    CAST(coalesce(c.connector, '') AS TEXT) AS connector, CAST(coalesce(s.class, c.class, 0) AS INTEGER) AS class,
    CAST(coalesce(f.lag, -1) AS INTEGER) AS start_lag
FROM events AS e
LEFT JOIN connections AS c ON e.from_state <> e.to_state AND e.to_state <> 2 AND c.id = e.connection_id
LEFT JOIN job_state AS s ON e.from_state <> e.to_state AND e.to_state <> 2 AND s.job_id = e.job_id
LEFT JOIN starts AS f ON e.to_state = 3 AND e.attempt = 1 AND f.project = e.project AND f.armed_at = e.at AND f.job_id = e.job_id
WHERE e.position > @after ORDER BY e.position LIMIT @max_rows;

-- name: RollPast :many
-- The newest first.
SELECT sequence, to_state, at FROM events
WHERE job_id = @job_id AND sequence < @before ORDER BY sequence DESC LIMIT @max_rows;

-- name: MoveRoll :execrows
UPDATE rollup_place SET position = @position, at = @at WHERE id = 1 AND position = @was;

-- name: AddRollup :exec
INSERT INTO rollups (project, connection_id, width, start_at, connector, class, measure, bin, count)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (project, connection_id, width, start_at, connector, class, measure, bin)
DO UPDATE SET count = rollups.count + excluded.count;

-- name: RemoveRollups :execrows
DELETE FROM rollups
WHERE (project, connection_id, width, start_at, connector, class, measure, bin) IN (
    SELECT r.project, r.connection_id, r.width, r.start_at, r.connector, r.class, r.measure, r.bin FROM rollups AS r
    WHERE r.width = @width AND r.start_at < @before ORDER BY r.start_at LIMIT @max_rows
);

-- name: Rollups :many
SELECT start_at, connector, class, measure, bin, count FROM rollups
WHERE project = @project AND connection_id = @connection_id AND width = @width AND start_at >= @since AND start_at < @before
ORDER BY start_at, connector, class, measure, bin;

-- name: HasRollups :one
SELECT CAST(EXISTS (SELECT 1 FROM rollups WHERE width = @width AND start_at < @before) AS INTEGER);
