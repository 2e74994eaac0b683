-- Recurring schedules and their firings.

-- name: WakeSchedule :execrows
-- A schedule whose buffered firing may have waited for a change of a job.
UPDATE schedules SET next_at = @now WHERE id = @id AND buffered <> '' AND (next_at IS NULL OR next_at > @now);

-- name: NewestOpenJob :one
SELECT s.job_id, s.state FROM schedule_jobs AS o JOIN job_state AS s ON s.job_id = o.job_id
WHERE o.schedule_id = @schedule_id AND o.unresolved = @unresolved ORDER BY o.job_id DESC LIMIT 1;

-- name: AddScheduleJob :exec
INSERT OR IGNORE INTO schedule_jobs (schedule_id, unresolved, job_id) VALUES (@schedule_id, @unresolved, @job_id);

-- name: RemoveScheduleJob :exec
DELETE FROM schedule_jobs WHERE schedule_id = @schedule_id AND unresolved = @unresolved AND job_id = @job_id;

-- name: EndedOfSchedule :many
-- The walk skips jobs that retention has removed, so it has a bound of its own.
SELECT s.job_id, s.state, f.decided_at FROM (
    SELECT n.job_id, n.decided_at, n.number FROM firings AS n
    WHERE n.schedule_id = @schedule_id ORDER BY n.number DESC LIMIT 1000
) AS f JOIN job_state AS s ON s.job_id = f.job_id
WHERE s.ended_at IS NOT NULL
ORDER BY f.number DESC LIMIT @max_rows;

-- name: InsertFiring :execrows
INSERT INTO firings (
    schedule_id, name, number, nominal_at, local_time, mark, origin, outcome, reason, job_id, blocking_job, run,
    decided_at
) VALUES (
    @schedule_id, @name, @number, @nominal_at, @local_time, @mark, @origin, @outcome, @reason, @job_id,
    @blocking_job, @run, @decided_at
) ON CONFLICT (schedule_id, name) DO NOTHING;
