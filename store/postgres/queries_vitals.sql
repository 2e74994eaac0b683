-- An operator's measurements of all projects. Each query reads a bounded part of an index.

-- name: VitalWaiting :one
SELECT count(*) FROM (
    SELECT s.start_deadline FROM job_state AS s WHERE s.state IN (1, 6) AND s.start_deadline < 'infinity' LIMIT @most
) AS w;

-- name: VitalDue :one
-- In the order of a claim: rows that wait longest first.
SELECT count(*) FROM (
    SELECT s.next_at FROM (
        SELECT c.connection_id, c.hold_key FROM connection_ready AS c
        WHERE c.runnable_at <= @now ORDER BY c.runnable_at LIMIT @max_rows
    ) AS r CROSS JOIN LATERAL (
        SELECT j.next_at FROM job_state AS j
        WHERE j.connection_id = r.connection_id AND j.hold_key = r.hold_key
            AND j.state IN (1, 6) AND j.waits_for IS NULL AND j.next_at <= @now
    ) AS s
    LIMIT @most
) AS d;

-- name: VitalOldestDue :one
SELECT coalesce(min(d.next_at), 'epoch')::timestamptz AS due FROM (
    SELECT c.connection_id, c.hold_key FROM connection_ready AS c
    WHERE c.runnable_at <= @now ORDER BY c.runnable_at LIMIT @max_rows
) AS r CROSS JOIN LATERAL (
    SELECT s.next_at FROM job_state AS s
    WHERE s.connection_id = r.connection_id AND s.hold_key = r.hold_key
        AND s.state IN (1, 6) AND s.waits_for IS NULL
    ORDER BY s.next_at LIMIT 1
) AS d;

-- name: VitalInFlight :one
SELECT count(*) FROM (SELECT s.next_at FROM job_state AS s WHERE s.state IN (2, 3) LIMIT @most) AS f;

-- name: VitalAccepted :one
SELECT count(*) FROM (SELECT s.state FROM job_state AS s WHERE s.state IN (4, 5) LIMIT @most) AS a WHERE a.state = 4;

-- name: VitalUnknown :one
-- Jobs that have not changed for longest come first.
SELECT count(*) AS jobs, coalesce(min(u.since), 'epoch')::timestamptz AS since FROM (
    SELECT coalesce(i.armed_at, i.updated_at) AS since FROM job_state AS i
    WHERE i.state IN (5, 7) AND i.state = @state ORDER BY i.updated_at LIMIT @most
) AS u;

-- name: VitalRefused :many
-- A row for each hold key whose credential is refused.
SELECT r.connection_id, c.connector FROM connection_ready AS r JOIN connections AS c ON c.id = r.connection_id
WHERE r.auth_hold_at IS NOT NULL AND c.deleted_at IS NULL LIMIT @most;

-- name: VitalLimited :many
-- A row for each hold key that the platform limits, or has limited.
SELECT r.connection_id, r.rate_limited_until, c.connector FROM connection_ready AS r JOIN connections AS c ON c.id = r.connection_id
WHERE r.rate_limited_until > 'epoch' AND c.deleted_at IS NULL LIMIT @most;

-- name: VitalPaused :many
-- A row for each connection that a person has paused.
SELECT c.id AS connection_id, c.connector FROM connections AS c WHERE c.paused_at IS NOT NULL AND c.deleted_at IS NULL LIMIT @most;

-- name: VitalFiring :one
-- The earliest next_at; 'epoch': there is none. A schedule that was postponed is due all the same.
SELECT coalesce(least((
    SELECT coalesce(s.postponed_until, s.next_at) FROM schedules AS s
    WHERE s.next_at IS NOT NULL ORDER BY coalesce(s.postponed_until, s.next_at) LIMIT 1
), (
    SELECT p.next_at FROM schedules AS p WHERE p.postponed_until IS NOT NULL ORDER BY p.next_at LIMIT 1
)), 'epoch')::timestamptz AS due;

-- name: VitalRefusedSchedules :one
-- Schedules of which at least two decisions in a row were refused.
SELECT count(*) FROM (
    SELECT 1 FROM schedules AS s WHERE s.postponed_until IS NOT NULL AND s.refused_decisions > 1 LIMIT @most
) AS r;
