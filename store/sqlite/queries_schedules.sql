-- Recurring schedules and their firings.

-- name: InsertSchedule :exec
INSERT INTO schedules (
    id, project, idem_key, key_digest, fingerprint, version, revision, generation, spec, template, policies,
    connection_id, display_name, labels, queued, pause_after_failures, state, pause_cause, note, paused_at, cursor_at,
    next_at, postponed_until, refused_decisions, catch_up, buffered, skips, run, day, day_count, fired,
    skipped_by_overlap, skipped_by_person, skipped_by_limit, no_content, missed, coalesced, refused, held, refused_in_row, last_firing, held_until, ledger_begin, created_at,
    updated_at, deleted_at, created_by, updated_by
) VALUES (
    @id, @project, @idem_key, @key_digest, @fingerprint, @version, @revision, @generation, @spec, @template,
    @policies, @connection_id, @display_name, @labels, @queued, @pause_after_failures, @state, @pause_cause, @note,
    @paused_at, @cursor_at, @next_at, @postponed_until, @refused_decisions, @catch_up, @buffered, @skips, @run, @day, @day_count, @fired, @skipped_by_overlap,
    @skipped_by_person, @skipped_by_limit, @no_content, @missed, @coalesced, @refused, @held, @refused_in_row,
    @last_firing, @held_until, @ledger_begin, @created_at, @updated_at, @deleted_at, @created_by, @updated_by
);

-- name: GetSchedule :one
SELECT * FROM schedules WHERE id = ?;

-- name: ScheduleByKey :one
SELECT * FROM schedules WHERE key_digest = ?;

-- name: ListedSchedule :one
-- Without its template.
SELECT
    id, project, idem_key, key_digest, fingerprint, version, revision, generation, spec, CAST(x'' AS BLOB) AS template,
    policies, connection_id, display_name, labels, queued, pause_after_failures, state, pause_cause, note, paused_at,
    cursor_at, next_at, postponed_until, refused_decisions, catch_up, buffered, skips, run, day, day_count, fired,
    skipped_by_overlap, skipped_by_person, skipped_by_limit, no_content, missed, coalesced, refused, held, refused_in_row,
    last_firing, held_until, ledger_begin, created_at, updated_at, deleted_at, created_by, updated_by
FROM schedules WHERE id = ?;

-- name: SchedulesPage :many
-- The columns that a list filters by.
SELECT id, created_at, state, pause_cause, connection_id, labels, queued, held_until FROM schedules
WHERE project = @project AND (created_at < @after_time OR created_at = @after_time AND id < @after_id)
ORDER BY created_at DESC, id DESC LIMIT @max_rows;

-- name: SetSchedule :execrows
UPDATE schedules SET
    version = @version, revision = @revision, generation = @generation, spec = @spec, template = @template,
    policies = @policies, connection_id = @connection_id, display_name = @display_name, labels = @labels,
    pause_after_failures = @pause_after_failures, state = @state, pause_cause = @pause_cause, note = @note,
    paused_at = @paused_at, cursor_at = @cursor_at, next_at = @next_at, buffered = @buffered, skips = @skips,
    run = @run, fired = @fired, skipped_by_overlap = @skipped_by_overlap, skipped_by_person = @skipped_by_person,
    missed = @missed, coalesced = @coalesced, refused = @refused, last_firing = @last_firing,
    updated_at = @updated_at, deleted_at = @deleted_at, updated_by = @updated_by, queued = @queued,
    no_content = @no_content, skipped_by_limit = @skipped_by_limit, held = @held,
    refused_in_row = @refused_in_row, held_until = @held_until, catch_up = @catch_up, day = @day,
    day_count = @day_count, postponed_until = NULL, refused_decisions = 0
WHERE id = @id AND revision = @revision - 1;

-- name: DueSchedules :many
SELECT id FROM schedules
WHERE next_at IS NOT NULL AND coalesce(postponed_until, next_at) <= +CAST(@now AS INTEGER)
    AND id NOT IN (SELECT unhex(value) FROM json_each(@except_ids))
ORDER BY coalesce(postponed_until, next_at) LIMIT @max_rows;

-- name: NextSchedule :one
SELECT CAST(coalesce(postponed_until, next_at) AS INTEGER) AS next_at FROM schedules
WHERE next_at IS NOT NULL AND id NOT IN (SELECT unhex(value) FROM json_each(@except_ids))
ORDER BY coalesce(postponed_until, next_at) LIMIT 1;

-- name: WakeSchedule :execrows
-- A schedule whose buffered firing may have waited for a change of a job.
UPDATE schedules SET next_at = @now WHERE id = @id AND buffered <> '' AND (next_at IS NULL OR next_at > @now);

-- name: PostponeSchedule :exec
-- A schedule whose decision was not written.
UPDATE schedules SET postponed_until = CAST(@until AS INTEGER), refused_decisions = refused_decisions + 1
WHERE id = @id AND next_at IS NOT NULL;

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

-- name: GetFiring :one
SELECT * FROM firings WHERE schedule_id = @schedule_id AND name = @name;

-- name: InsertFiring :execrows
INSERT INTO firings (
    schedule_id, name, number, nominal_at, local_time, mark, origin, outcome, reason, job_id, blocking_job, run,
    decided_at
) VALUES (
    @schedule_id, @name, @number, @nominal_at, @local_time, @mark, @origin, @outcome, @reason, @job_id,
    @blocking_job, @run, @decided_at
) ON CONFLICT (schedule_id, name) DO NOTHING;

-- name: FiringsBefore :many
SELECT * FROM firings WHERE schedule_id = @schedule_id AND number < @before ORDER BY number DESC LIMIT @max_rows;

-- name: OldFirings :many
SELECT schedule_id, name, decided_at FROM firings WHERE decided_at < @before ORDER BY decided_at LIMIT @max_rows;

-- name: RemoveFiring :exec
DELETE FROM firings WHERE schedule_id = @schedule_id AND name = @name;

-- name: RaiseLedger :exec
UPDATE schedules SET ledger_begin = @ledger_begin WHERE id = @id AND ledger_begin < @ledger_begin;

-- name: LiveSchedules :many
SELECT * FROM schedules WHERE project = @project AND state < 4 LIMIT @max_rows;

-- name: SchedulesOf :many
SELECT id FROM schedules WHERE project = @project ORDER BY created_at, id LIMIT @max_rows;

-- name: FiringsOf :many
SELECT name FROM firings WHERE schedule_id = @schedule_id LIMIT @max_rows;

-- name: RemoveSchedule :exec
DELETE FROM schedules WHERE id = ?;
