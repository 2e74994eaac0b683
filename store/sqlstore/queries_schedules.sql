-- Recurring schedules and their firings. See store/postgres/lock_order.go for the order of
-- the locks.

-- name: InsertSchedule :execrows
-- Waits for another transaction that binds the key.
INSERT INTO schedules (
    id, project, idem_key, key_digest, fingerprint, version, revision, generation, spec, template, policies,
    connection_id, display_name, labels, queued, pause_after_failures, state, pause_cause, note, paused_at, cursor_at,
    next_at, postponed_until, refused_decisions, catch_up, buffered, skips, run, day, day_count, fired,
    skipped_by_overlap, skipped_by_person, skipped_by_limit, no_content, missed, coalesced, refused, held,
    refused_in_row, last_firing, held_until, ledger_begin, created_at, updated_at, deleted_at, created_by, updated_by
) VALUES (
    @id, @project, @idem_key, @key_digest, @fingerprint, @version, @revision, @generation, @spec, @template, @policies,
    @connection_id, @display_name, @labels, @queued, @pause_after_failures, @state, @pause_cause, @note, @paused_at,
    @cursor_at, @next_at, @postponed_until, @refused_decisions, @catch_up, @buffered, @skips, @run, @day, @day_count,
    @fired, @skipped_by_overlap, @skipped_by_person, @skipped_by_limit, @no_content, @missed, @coalesced, @refused,
    @held, @refused_in_row, @last_firing, @held_until, @ledger_begin, @created_at, @updated_at, @deleted_at,
    @created_by, @updated_by
) ON CONFLICT (key_digest) DO NOTHING;

-- name: GetSchedule :one
SELECT * FROM schedules WHERE id = @id;

-- name: ScheduleByKey :one
SELECT * FROM schedules WHERE key_digest = @key_digest;

-- name: LockSchedule :one
SELECT * FROM schedules WHERE id = @id AND (@project::text = '' OR project = @project) FOR UPDATE;

-- name: HasSchedule :one
SELECT id FROM schedules WHERE id = @id AND (@project::text = '' OR project = @project);

-- name: SchedulesByID :many
SELECT
    id, project, idem_key, key_digest, fingerprint, version, revision, generation, spec,
    CASE WHEN @templates::boolean THEN template ELSE ''::bytea END AS template, policies,
    connection_id, display_name, labels, queued, pause_after_failures, state, pause_cause, note, paused_at, cursor_at,
    next_at, postponed_until, refused_decisions, catch_up, buffered, skips, run, day, day_count, fired,
    skipped_by_overlap, skipped_by_person, skipped_by_limit, no_content, missed, coalesced, refused, held,
    refused_in_row, last_firing, held_until, ledger_begin, created_at, updated_at, deleted_at, created_by, updated_by
FROM schedules WHERE id = ANY (@ids::uuid[]);

-- name: SchedulesPage :many
-- The columns that a list filters by.
SELECT id, created_at, state, pause_cause, connection_id, labels, queued, held_until FROM schedules
WHERE project = @project AND (created_at, id) < (@after_time::timestamptz, @after_id::uuid)
ORDER BY created_at DESC, id DESC LIMIT @max_rows;

-- name: LockLiveSchedules :many
SELECT * FROM schedules WHERE project = @project AND state < 4 ORDER BY created_at, id LIMIT @max_rows FOR UPDATE;

-- name: LockDueSchedules :many
-- Rows that another transaction has locked are left to it.
SELECT id, octet_length(template)::bigint AS size, queued FROM schedules
WHERE next_at IS NOT NULL AND coalesce(postponed_until, next_at) <= @now::timestamptz AND id <> ALL (@except_ids::uuid[])
ORDER BY coalesce(postponed_until, next_at) LIMIT @max_rows FOR UPDATE SKIP LOCKED;

-- name: LockTheseSchedules :many
SELECT id, octet_length(template)::bigint AS size, queued FROM schedules
WHERE id = ANY (@ids::uuid[]) AND next_at IS NOT NULL AND coalesce(postponed_until, next_at) <= @now::timestamptz
FOR UPDATE SKIP LOCKED;

-- name: SetSchedule :execrows
UPDATE schedules SET
    version = @version, revision = @revision, generation = @generation, spec = @spec, template = @template,
    policies = @policies, connection_id = @connection_id, display_name = @display_name, labels = @labels,
    queued = @queued, pause_after_failures = @pause_after_failures, state = @state, pause_cause = @pause_cause,
    note = @note, paused_at = @paused_at, cursor_at = @cursor_at, next_at = @next_at, postponed_until = NULL,
    refused_decisions = 0, catch_up = @catch_up, buffered = @buffered, skips = @skips, run = @run, day = @day,
    day_count = @day_count, fired = @fired, skipped_by_overlap = @skipped_by_overlap,
    skipped_by_person = @skipped_by_person, skipped_by_limit = @skipped_by_limit, no_content = @no_content,
    missed = @missed, coalesced = @coalesced, refused = @refused, held = @held, refused_in_row = @refused_in_row,
    last_firing = @last_firing, held_until = @held_until, updated_at = @updated_at, deleted_at = @deleted_at,
    updated_by = @updated_by
WHERE id = @id AND schedules.revision + 1 = @revision;

-- name: PostponeSchedules :exec
-- Those whose decisions were not written.
UPDATE schedules SET postponed_until = @until::timestamptz, refused_decisions = refused_decisions + 1
WHERE id = ANY (@ids::uuid[]) AND next_at IS NOT NULL;

-- name: NextSchedule :one
-- None in a quarantine.
SELECT coalesce(postponed_until, next_at)::timestamptz AS next_at FROM schedules
WHERE next_at IS NOT NULL AND id <> ALL (@except_ids::uuid[]) AND (SELECT m.quarantined FROM meta AS m WHERE m.id = 1) = ''
ORDER BY coalesce(postponed_until, next_at) LIMIT 1;

-- name: GetFiring :one
SELECT * FROM firings WHERE schedule_id = @schedule_id AND name = @name;

-- name: FiringsBefore :many
SELECT * FROM firings WHERE schedule_id = @schedule_id AND number < @before ORDER BY number DESC LIMIT @max_rows;
