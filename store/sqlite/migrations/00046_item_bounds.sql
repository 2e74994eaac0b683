-- Bounds of queues. What 00001 says of ids, times and numbers holds here too.

-- +goose Up

-- Items that were refused since one became a job, or a caller changed the schedule.
ALTER TABLE schedules ADD COLUMN refused_in_row INTEGER NOT NULL DEFAULT 0 CHECK (refused_in_row >= 0);

-- Content that waits in a queue counts as that of stored jobs does.
INSERT INTO project_use (project, jobs, bytes)
SELECT s.project, 0, sum(length(i.payload))
FROM schedule_items AS i JOIN schedules AS s ON s.id = i.schedule_id WHERE i.state IN (1, 4) GROUP BY s.project
ON CONFLICT (project) DO UPDATE SET bytes = bytes + excluded.bytes;

-- +goose Down
-- There is no way down: a schema is only ever replaced by a newer one.
SELECT 1;
