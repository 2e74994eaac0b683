-- Recurring schedules and their firings. See lock_order.go for the order of the locks.

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

-- name: WakeSchedules :one
-- Makes schedules due whose buffered firings may have waited for changes of jobs. busy are
-- those that another transaction decides about or changes; see waker.
WITH woken AS (
    UPDATE schedules SET next_at = @now
    WHERE ctid = ANY (ARRAY(
        SELECT s.ctid FROM schedules AS s
        WHERE s.id = ANY (@ids::uuid[]) AND s.buffered <> '' AND (s.next_at IS NULL OR s.next_at > @now)
        FOR NO KEY UPDATE SKIP LOCKED
    ))
    RETURNING id
),
free AS MATERIALIZED (
    SELECT s.id FROM schedules AS s
    -- Checked again on the locked row: a schedule that began to wait since this statement
    -- began is not free, and the waker makes it due.
    WHERE s.id = ANY (@ids::uuid[]) AND NOT (s.buffered <> '' AND (s.next_at IS NULL OR s.next_at > @now))
    FOR KEY SHARE SKIP LOCKED
)
SELECT (SELECT count(*) FROM woken) AS woken, ARRAY(
    SELECT u.id FROM (SELECT unnest(@ids::uuid[]) AS id) AS u
    -- A row that this statement has written is not locked by it again.
    WHERE NOT EXISTS (SELECT 1 FROM free AS f WHERE f.id = u.id) AND NOT EXISTS (SELECT 1 FROM woken AS w WHERE w.id = u.id)
)::uuid[] AS busy;

-- name: WakeSchedule :execrows
-- A schedule that is locked.
UPDATE schedules SET next_at = @now WHERE id = @id AND buffered <> '' AND (next_at IS NULL OR next_at > @now);

-- name: OpenJobs :many
-- Of each schedule the newest job under way, then the newest one whose outcome is unknown.
SELECT u.schedule_id::uuid AS schedule_id, o.job_id, o.state
FROM (SELECT unnest(@ids::uuid[]) AS schedule_id) AS u CROSS JOIN LATERAL (
    (
        SELECT s.job_id, s.state FROM job_state AS s
        WHERE s.schedule_id = u.schedule_id AND s.schedule_id IS NOT NULL AND s.ended_at IS NULL AND s.state NOT IN (5, 7)
        ORDER BY s.job_id DESC LIMIT 1
    )
    UNION ALL
    (
        SELECT s.job_id, s.state FROM job_state AS s
        WHERE s.schedule_id = u.schedule_id AND s.schedule_id IS NOT NULL AND s.ended_at IS NULL AND s.state IN (5, 7)
        ORDER BY s.job_id DESC LIMIT 1
    )
) AS o;

-- name: EndedJobs :many
SELECT u.schedule_id::uuid AS schedule_id, o.job_id, o.state, o.decided_at
FROM (SELECT unnest(@ids::uuid[]) AS schedule_id, unnest(@mosts::bigint[]) AS most) AS u CROSS JOIN LATERAL (
    -- The walk skips jobs that retention has removed, so it has a bound of its own.
    SELECT s.job_id, s.state, f.decided_at FROM (
        SELECT n.job_id, n.decided_at, n.number FROM firings AS n
        WHERE n.schedule_id = u.schedule_id ORDER BY n.number DESC LIMIT 1000
    ) AS f JOIN job_state AS s ON s.job_id = f.job_id
    WHERE s.ended_at IS NOT NULL
    ORDER BY f.number DESC LIMIT u.most
) AS o;

-- name: KnownFirings :many
SELECT f.* FROM (SELECT unnest(@schedules::uuid[]) AS schedule_id, unnest(@names::text[]) AS name) AS u
JOIN firings AS f ON f.schedule_id = u.schedule_id AND f.name = u.name;

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
