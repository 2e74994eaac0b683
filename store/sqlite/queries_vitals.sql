-- An operator's measurements of all projects. Each query reads a bounded part of an index.

-- name: VitalWaiting :one
-- By an index that has all filtered columns, so by project. Jobs under way count under their
-- earlier state.
SELECT count(*) FROM (
    SELECT s.listed FROM (SELECT u.project FROM project_use AS u ORDER BY u.project LIMIT @max_rows) AS p
    CROSS JOIN job_state AS s WHERE s.project = p.project AND s.listed IN (1, 6) LIMIT @most
) AS w;

-- name: VitalDue :one
-- In the order of a claim: rows that wait longest first.
SELECT count(*) FROM (
    SELECT s.next_at FROM (
        SELECT c.connection_id, c.hold_key FROM connection_ready AS c
        WHERE c.runnable_at <= @now ORDER BY c.runnable_at, c.served_turn LIMIT @max_rows
    ) AS r CROSS JOIN job_state AS s
    WHERE s.connection_id = r.connection_id AND s.hold_key = r.hold_key
        AND s.state IN (1, 6) AND s.waits_for IS NULL AND s.next_at <= @now
    LIMIT @most
) AS d;

-- name: VitalOldestDue :one
-- 0: none.
SELECT CAST(coalesce(min((
    SELECT s.next_at FROM job_state AS s
    WHERE s.connection_id = r.connection_id AND s.hold_key = r.hold_key
        AND s.state IN (1, 6) AND s.waits_for IS NULL
    ORDER BY s.next_at LIMIT 1
)), 0) AS INTEGER)
FROM (
    SELECT c.connection_id, c.hold_key FROM connection_ready AS c
    WHERE c.runnable_at <= @now ORDER BY c.runnable_at, c.served_turn LIMIT @max_rows
) AS r;

-- name: VitalInFlight :one
-- And those of them that came from SCHEDULED or RETRYING.
SELECT count(*) AS jobs, CAST(coalesce(sum(f.listed IN (1, 6)), 0) AS INTEGER) AS waited
FROM (SELECT s.listed FROM job_state AS s WHERE s.state IN (2, 3) LIMIT @most) AS f;

-- name: VitalAccepted :one
SELECT count(*) FROM (SELECT s.state FROM job_state AS s WHERE s.state IN (4, 5) LIMIT @most) AS a WHERE a.state = 4;

-- name: VitalUnknown :one
-- Those that have not changed for longest come first. 0: there is none.
SELECT count(*) AS jobs, CAST(coalesce(min(u.since), 0) AS INTEGER) AS since FROM (
    SELECT coalesce(s.armed_at, s.updated_at) AS since
    FROM job_state AS s WHERE s.state IN (5, 7) AND s.state = @state ORDER BY s.updated_at LIMIT @most
) AS u;

-- name: VitalRefused :many
-- A row for each hold key whose credential is refused.
SELECT r.connection_id, c.connector FROM connection_ready AS r JOIN connections AS c ON c.id = r.connection_id
WHERE r.auth_hold_at IS NOT NULL AND c.deleted_at IS NULL LIMIT @most;

-- name: VitalLimited :many
-- A row for each hold key that the platform limits, or has limited.
SELECT r.connection_id, r.rate_limited_until, c.connector FROM connection_ready AS r JOIN connections AS c ON c.id = r.connection_id
WHERE r.rate_limited_until > 0 AND c.deleted_at IS NULL LIMIT @most;

-- name: VitalPaused :many
-- A row for each connection that a person has paused.
SELECT c.id AS connection_id, c.connector FROM connections AS c WHERE c.paused_at IS NOT NULL AND c.deleted_at IS NULL LIMIT @most;

-- name: VitalFiring :one
-- The earliest next_at; 0: there is none. A schedule that was postponed is due all the same.
SELECT CAST(coalesce(min(d.next_at), 0) AS INTEGER) FROM (
    SELECT * FROM (
        SELECT coalesce(s.postponed_until, s.next_at) AS next_at FROM schedules AS s
        WHERE s.next_at IS NOT NULL ORDER BY coalesce(s.postponed_until, s.next_at) LIMIT 1
    )
    UNION ALL
    SELECT * FROM (
        SELECT p.next_at FROM schedules AS p WHERE p.postponed_until IS NOT NULL ORDER BY p.next_at LIMIT 1
    )
) AS d;

-- name: VitalRefusedSchedules :one
-- Schedules of which at least two decisions in a row were refused.
SELECT count(*) FROM (
    SELECT 1 FROM schedules AS s WHERE s.postponed_until IS NOT NULL AND s.refused_decisions > 1 LIMIT @most
) AS r;
