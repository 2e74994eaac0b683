-- Counts of events in buckets of time.

-- name: RollPlace :one
SELECT position, at FROM rollup_place WHERE id = 1;

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
