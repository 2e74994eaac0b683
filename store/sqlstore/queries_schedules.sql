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

-- name: SetFired :execrows
WITH u AS (
    SELECT
        unnest(@ids::uuid[]) AS id, unnest(@versions::bigint[]) AS version,
        unnest(@revisions::bigint[]) AS revision, unnest(@states::smallint[]) AS state,
        unnest(@pause_causes::smallint[]) AS pause_cause, unnest(@notes::text[]) AS note,
        unnest(@paused_ats::timestamptz[]) AS paused_at, unnest(@cursors::text[]) AS cursor_at,
        unnest(@next_ats::timestamptz[]) AS next_at, unnest(@buffereds::text[]) AS buffered,
        unnest(@skip_lists::text[]) AS skips, unnest(@runs::bigint[]) AS run, unnest(@fireds::bigint[]) AS fired,
        unnest(@overlapped::bigint[]) AS skipped_by_overlap, unnest(@persons::bigint[]) AS skipped_by_person,
        unnest(@misseds::bigint[]) AS missed, unnest(@coalesceds::bigint[]) AS coalesced,
        unnest(@refuseds::bigint[]) AS refused, unnest(@last_firings::bigint[]) AS last_firing,
        unnest(@updated_ats::timestamptz[]) AS updated_at, unnest(@no_contents::bigint[]) AS no_content,
        unnest(@limiteds::bigint[]) AS skipped_by_limit, unnest(@days::text[]) AS day,
        unnest(@day_counts::bigint[]) AS day_count, unnest(@helds::bigint[]) AS held,
        unnest(@refused_rows::bigint[]) AS refused_in_row, unnest(@held_untils::timestamptz[]) AS held_until,
        unnest(@catch_ups::text[]) AS catch_up
)
UPDATE schedules AS s SET
    version = u.version, revision = u.revision, state = u.state, pause_cause = u.pause_cause, note = u.note,
    paused_at = nullif(u.paused_at, '0001-01-01 00:00:00+00'::timestamptz), cursor_at = u.cursor_at,
    next_at = nullif(u.next_at, '0001-01-01 00:00:00+00'::timestamptz), buffered = u.buffered, skips = u.skips,
    run = u.run, fired = u.fired, skipped_by_overlap = u.skipped_by_overlap,
    skipped_by_person = u.skipped_by_person, missed = u.missed, coalesced = u.coalesced, refused = u.refused,
    last_firing = u.last_firing, updated_at = u.updated_at, no_content = u.no_content,
    skipped_by_limit = u.skipped_by_limit, day = u.day, day_count = u.day_count, held = u.held,
    refused_in_row = u.refused_in_row, held_until = nullif(u.held_until, '0001-01-01 00:00:00+00'::timestamptz),
    catch_up = u.catch_up, postponed_until = NULL, refused_decisions = 0
FROM u WHERE s.id = u.id AND s.revision = u.revision - 1;

-- name: OpenJobs :many
-- Of each schedule the newest job under way, then the newest one whose outcome is unknown. They
-- are found before job_state is joined: without statistics PostgreSQL walked it. With
-- statistics taken while there was one job it walked it again, so the join has a condition of
-- its own on the key. SQLite has a table of open jobs.
WITH under_way AS MATERIALIZED (
    SELECT s.id, (
        SELECT o.job_id FROM job_state /* SQLite: schedule_jobs */ AS o
        WHERE o.schedule_id = s.id AND o.schedule_id IS NOT NULL AND o.ended_at /* SQLite: o.unresolved = 0 AND NULL */ IS NULL
            AND o.state /* SQLite: 1 */ NOT IN (5, 7)
        ORDER BY o.job_id DESC LIMIT 1
    ) AS job_id
    FROM schedules AS s WHERE s.id = ANY (@ids::uuid[])
), unresolved AS MATERIALIZED (
    SELECT s.id, (
        SELECT o.job_id FROM job_state /* SQLite: schedule_jobs */ AS o
        WHERE o.schedule_id = s.id AND o.schedule_id IS NOT NULL AND o.ended_at /* SQLite: o.unresolved = 1 AND NULL */ IS NULL
            AND o.state /* SQLite: 5 */ IN (5, 7)
        ORDER BY o.job_id DESC LIMIT 1
    ) AS job_id
    FROM schedules AS s WHERE s.id = ANY (@ids::uuid[])
)
SELECT under_way.id AS schedule_id, j.job_id, j.state FROM under_way JOIN job_state AS j ON j.job_id = under_way.job_id
WHERE j.job_id = ANY (ARRAY(SELECT under_way.job_id FROM under_way))
UNION ALL
SELECT unresolved.id AS schedule_id, j.job_id, j.state FROM unresolved JOIN job_state AS j ON j.job_id = unresolved.job_id
WHERE j.job_id = ANY (ARRAY(SELECT unresolved.job_id FROM unresolved));

-- name: EndedJobs :batchmany
-- The walk skips jobs that retention has removed, so it has a bound of its own.
SELECT s.job_id, s.state, f.decided_at FROM (
    SELECT n.job_id, n.decided_at, n.number FROM firings AS n
    WHERE n.schedule_id = @schedule_id ORDER BY n.number DESC LIMIT 1000
) AS f JOIN job_state AS s ON s.job_id = f.job_id
WHERE s.ended_at IS NOT NULL
ORDER BY f.number DESC LIMIT @max_rows;

-- name: KnownFirings :many
SELECT f.* FROM (SELECT unnest(@schedules::uuid[]) AS schedule_id, unnest(@names::text[]) AS name) AS u
CROSS JOIN firings AS f WHERE f.schedule_id = u.schedule_id AND f.name = u.name;

-- name: InsertFirings :exec
INSERT INTO firings (
    schedule_id, name, number, nominal_at, local_time, mark, origin, outcome, reason, job_id, blocking_job, run,
    decided_at
)
SELECT unnest(@schedules::uuid[]) AS schedule_id, unnest(@names::text[]) AS name, unnest(@numbers::bigint[]) AS number,
    unnest(@nominals::timestamptz[]) AS nominal_at, unnest(@local_times::text[]) AS local_time,
    unnest(@marks::smallint[]) AS mark, unnest(@origins::smallint[]) AS origin,
    unnest(@outcomes::smallint[]) AS outcome, unnest(@reasons::text[]) AS reason, nullif(unnest(@jobs::uuid[]), '00000000-0000-0000-0000-000000000000'::uuid) AS job_id,
    nullif(unnest(@blockers::uuid[]), '00000000-0000-0000-0000-000000000000'::uuid) AS blocking_job, unnest(@runs::bigint[]) AS run,
    @decided_at
ON CONFLICT (schedule_id, name) DO NOTHING;
