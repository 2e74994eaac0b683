-- Recurring schedules and their firings.

-- name: WakeSchedule :execrows
-- A schedule whose buffered firing may have waited for a change of a job.
UPDATE schedules SET next_at = @now WHERE id = @id AND buffered <> '' AND (next_at IS NULL OR next_at > @now);

-- name: AddScheduleJob :exec
INSERT OR IGNORE INTO schedule_jobs (schedule_id, unresolved, job_id) VALUES (@schedule_id, @unresolved, @job_id);

-- name: RemoveScheduleJob :exec
DELETE FROM schedule_jobs WHERE schedule_id = @schedule_id AND unresolved = @unresolved AND job_id = @job_id;
