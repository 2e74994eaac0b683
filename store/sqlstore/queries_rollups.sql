-- Counts of events in buckets of time.

-- name: RollPlace :one
SELECT p.position, p.at, coalesce((SELECT max(e.position) FROM event_pages AS e), 0)::bigint AS newest
FROM rollup_place AS p WHERE p.id = 1;

-- name: Connectors :many
SELECT id, connector FROM connections WHERE id = ANY (@ids::uuid[]);

-- name: Past :batchmany
-- The parts of the history of a job that have the most events before a sequence, or all.
SELECT h.last_sequence, h.body FROM job_history AS h
WHERE h.job_id = @job_id AND h.last_sequence >= @least AND h.last_sequence <= coalesce(
    (SELECT min(l.last_sequence) FROM job_history AS l WHERE l.job_id = @job_id AND l.last_sequence >= @enough), 9223372036854775807
)
UNION ALL
SELECT s.version, s.history FROM job_state AS s WHERE s.job_id = @job_id
ORDER BY last_sequence;

-- name: AddRollup :batchexec
INSERT INTO rollups (project, connection_id, width, start_at, connector, class, measure, bin, count)
VALUES (@project, @connection_id, @width, @start_at, @connector, @class, @measure, @bin, @count)
ON CONFLICT (project, connection_id, width, start_at, connector, class, measure, bin)
DO UPDATE SET count = rollups.count + excluded.count;

-- name: HasRollups :one
SELECT EXISTS (SELECT 1 FROM rollups WHERE width = @width AND start_at < @before);

-- name: RemoveRollups :execrows
DELETE FROM rollups
WHERE (project, connection_id, width, start_at, connector, class, measure, bin) IN (
    SELECT o.project, o.connection_id, o.width, o.start_at, o.connector, o.class, o.measure, o.bin FROM rollups AS o
    WHERE o.width = @width AND o.start_at < @before ORDER BY o.start_at LIMIT @max_rows
);

-- name: Rollups :many
SELECT project, connection_id, width, start_at, connector, class, measure, bin, count FROM rollups
WHERE project = @project AND connection_id = ANY (@connections::uuid[]) AND width = @width
    AND start_at >= @since AND start_at < @before;
