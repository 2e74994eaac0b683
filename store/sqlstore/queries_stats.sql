-- Measurements of one project, and vitals of all projects. Each vital sign reads a bounded
-- part of an index.

-- name: CountEnded :many
SELECT state, count(*) AS jobs FROM job_state
WHERE project = @project AND state IN (8, 9, 10, 11) AND ended_at >= @since
    AND (sqlc.narg('connection')::uuid IS NULL OR connection_id = sqlc.narg('connection'))
GROUP BY state;

-- name: OldestDue :one
-- Among the runnable rows that nothing holds.
SELECT min((
    SELECT s.next_at FROM job_state AS s
    WHERE s.connection_id = r.connection_id AND s.hold_key = r.hold_key AND s.state IN (1, 6) AND s.waits_for IS NULL
    ORDER BY s.next_at LIMIT 1
))::timestamptz AS due
FROM connections AS c JOIN connection_ready AS r ON r.connection_id = c.id
WHERE c.project = @project AND (sqlc.narg('connection')::uuid IS NULL OR c.id = sqlc.narg('connection'))
    AND NOT r.paused AND r.auth_hold_at IS NULL AND r.rate_limited_until <= @now;

-- name: StartPages :many
SELECT position, starts FROM event_pages
WHERE project = @project AND at >= @since AND starts IS NOT NULL ORDER BY at;

-- name: GetPage :one
SELECT body FROM event_pages WHERE position = @position;

-- name: CountRecovered :one
SELECT count(*) FROM effects AS e JOIN job_state AS s ON s.job_id = e.job_id
WHERE e.proof IN (2, 3) AND e.at >= @since AND s.project = @project
    AND (sqlc.narg('connection')::uuid IS NULL OR s.connection_id = sqlc.narg('connection'));

-- name: Vitals :one
-- Rows and jobs that have waited, or have not changed, for longest come first. An unknown
-- outcome of a notice (job.NoticeProject) needs no person.
SELECT
    (SELECT count(*) FROM (
        SELECT s.start_deadline FROM job_state AS s
        WHERE s.state /* SQLite: s.listed */ IN (1, 6) AND s.start_deadline < 'infinity'
            AND true /* SQLite: s.job_id NOT IN (SELECT f.job_id FROM job_state AS f INDEXED BY job_state_fence WHERE f.state IN (2, 3)) */
        LIMIT @most_waiting
    ) AS w)::bigint AS waiting,
    (SELECT count(*) FROM (
        SELECT s.next_at FROM (
            SELECT c.connection_id, c.hold_key FROM connection_ready AS c
            WHERE c.runnable_at <= @now ORDER BY c.runnable_at LIMIT @max_rows
        ) AS r CROSS JOIN job_state AS s
        WHERE s.connection_id = r.connection_id AND s.hold_key = r.hold_key
            AND s.state IN (1, 6) AND s.waits_for IS NULL AND s.next_at <= @now
        LIMIT @most
    ) AS d)::bigint AS due,
    (SELECT min((
        SELECT s.next_at FROM job_state AS s
        WHERE s.connection_id = r.connection_id AND s.hold_key = r.hold_key
            AND s.state IN (1, 6) AND s.waits_for IS NULL AND s.next_at <= @now
        ORDER BY s.next_at LIMIT 1
    )) FROM (
        SELECT c.connection_id, c.hold_key FROM connection_ready AS c
        WHERE c.runnable_at <= @now ORDER BY c.runnable_at LIMIT @max_rows
    ) AS r)::timestamptz AS oldest_due,
    (SELECT count(*) FROM (SELECT s.next_at FROM job_state AS s WHERE s.state IN (2, 3) LIMIT @most) AS f)::bigint AS in_flight,
    (SELECT count(*) FROM (
        SELECT s.state FROM job_state AS s WHERE s.state IN (4, 5) LIMIT @most
    ) AS a WHERE a.state = 4)::bigint AS accepted,
    (SELECT count(*) FROM (
        SELECT s.updated_at FROM job_state AS s WHERE s.state IN (5, 7) AND s.state = 5 AND s.project NOT LIKE '%/notices' LIMIT @most
    ) AS u)::bigint AS ambiguous,
    (SELECT count(*) FROM (
        SELECT s.updated_at FROM job_state AS s WHERE s.state IN (5, 7) AND s.state = 7 AND s.project NOT LIKE '%/notices' LIMIT @most
    ) AS u)::bigint AS needs_resolution,
    (SELECT min(u.since) FROM (
        SELECT a.since FROM (
            SELECT coalesce(s.armed_at, s.updated_at) AS since FROM job_state AS s
            WHERE s.state IN (5, 7) AND s.state = 5 AND s.project NOT LIKE '%/notices' ORDER BY s.updated_at LIMIT @most
        ) AS a
        UNION ALL
        SELECT n.since FROM (
            SELECT coalesce(s.armed_at, s.updated_at) AS since FROM job_state AS s
            WHERE s.state IN (5, 7) AND s.state = 7 AND s.project NOT LIKE '%/notices' ORDER BY s.updated_at LIMIT @most
        ) AS n
    ) AS u)::timestamptz AS oldest_unknown,
    (SELECT min(q.updated_at) FROM (
        SELECT s.updated_at FROM job_state AS s WHERE s.state IN (5, 7) AND s.state = 7 ORDER BY s.updated_at LIMIT 1
    ) AS q)::timestamptz AS oldest_question,
    -- A schedule that was postponed is due all the same.
    (SELECT min(d.next_at) FROM (
        SELECT w.next_at FROM (
            SELECT coalesce(s.postponed_until, s.next_at) AS next_at FROM schedules AS s
            WHERE s.next_at IS NOT NULL ORDER BY coalesce(s.postponed_until, s.next_at) LIMIT 1
        ) AS w
        UNION ALL
        SELECT p.next_at FROM (
            SELECT s.next_at FROM schedules AS s WHERE s.postponed_until IS NOT NULL ORDER BY s.next_at LIMIT 1
        ) AS p
    ) AS d)::timestamptz AS oldest_firing,
    (SELECT count(*) FROM (
        SELECT s.next_at FROM schedules AS s WHERE s.postponed_until IS NOT NULL AND s.refused_decisions > 1 LIMIT @most
    ) AS r)::bigint AS refused_schedules,
    (SELECT count(*) FROM (SELECT s.state FROM schedules AS s WHERE s.state < 3 LIMIT @most_waiting) AS o)::bigint AS schedules;

-- name: SubscriptionVitals :one
-- oldest_due is since when a step has been due that is not made. What a subscription collects, or compares
-- once in a while, is due then alone; what callbacks that can make no notice are to report, since it happened.
SELECT
    (SELECT count(*) FROM (SELECT s.state FROM subscriptions AS s WHERE s.state < 3 LIMIT @most_waiting) AS o)::bigint AS subscriptions,
    (SELECT count(*) FROM (
        SELECT s.state FROM subscriptions AS s WHERE s.state < 3 AND s.state = 1 AND s.pause_cause = 0 AND s.failed_number > 0 LIMIT @most
    ) AS f)::bigint AS failing,
    (SELECT count(*) FROM (
        SELECT s.state FROM subscriptions AS s WHERE s.state < 3 AND s.state = 2 AND s.pause_cause = 2 LIMIT @most
    ) AS p)::bigint AS paused,
    (SELECT min(d.since) FROM (
        SELECT t.since FROM (
            SELECT s.next_at AS since FROM subscriptions AS s WHERE s.state = 1 AND s.open_number = 0 AND s.next_at <= @now LIMIT @most
        ) AS t
        UNION ALL
        SELECT e.since FROM (
            SELECT (
                SELECT p.at FROM event_pages AS p WHERE p.project = s.project AND p.position > s.position ORDER BY p.position LIMIT 1
            ) AS since
            FROM subscriptions AS s
            WHERE s.state = 1 AND s.open_number = 0 AND s.failed_number = 0
                AND (NOT s.only_then OR s.callbacks AND s.last_error <> '') LIMIT @most
        ) AS e
    ) AS d)::timestamptz AS oldest_due;

-- name: PausedSchedules :many
-- Those that paused themselves, by store.PauseCause.
SELECT p.pause_cause, count(*)::bigint AS n FROM (
    SELECT s.pause_cause FROM schedules AS s WHERE s.state < 3 AND s.state = 2 AND s.pause_cause > 1 LIMIT @most
) AS p GROUP BY p.pause_cause;

-- name: ConnectionCounts :many
-- By connector. Each is found by the one before it, however many connections there are.
WITH RECURSIVE names AS (
    SELECT min(c.connector) AS connector FROM connections AS c WHERE c.deleted_at IS NULL
    UNION ALL
    SELECT (SELECT min(c.connector) FROM connections AS c WHERE c.deleted_at IS NULL AND c.connector > n.connector) AS connector
    FROM names AS n WHERE n.connector IS NOT NULL
)
SELECT n.connector::text AS connector, (
    SELECT count(*) FROM (SELECT c.connector FROM connections AS c WHERE c.deleted_at IS NULL AND c.connector = n.connector LIMIT @most_waiting) AS l
)::bigint AS n
FROM names AS n WHERE n.connector IS NOT NULL LIMIT @most;

-- name: ExpiringCredentials :many
-- By connector: credentials that end soon, and that nothing renews.
SELECT e.connector, count(*)::bigint AS n FROM (
    SELECT c.connector FROM connections AS c
    WHERE c.credential_expires_at > @now::timestamptz AND c.credential_expires_at < @soon::timestamptz
        AND NOT c.credential_renews AND c.deleted_at IS NULL LIMIT @most
) AS e GROUP BY e.connector;

-- name: Held :many
-- A row for each hold key whose credential is refused, whose rate is limited or whose breaker is
-- open, and one for each connection that a person has paused.
SELECT a.connection_id, a.connector, a.cause FROM (
    SELECT r.connection_id, c.connector, 'auth' AS cause FROM connection_ready AS r JOIN connections AS c ON c.id = r.connection_id
    WHERE r.auth_hold_at IS NOT NULL AND c.deleted_at IS NULL LIMIT @most
) AS a
UNION ALL
SELECT l.connection_id, l.connector, l.cause FROM (
    SELECT r.connection_id, r.rate_limited_until, c.connector, 'rate_limit' AS cause
    FROM connection_ready AS r JOIN connections AS c ON c.id = r.connection_id
    WHERE r.rate_limited_until > 'epoch' AND c.deleted_at IS NULL LIMIT @most
) AS l WHERE rate_limited_until > @now::timestamptz
UNION ALL
SELECT p.connection_id, p.connector, p.cause FROM (
    SELECT c.id AS connection_id, c.connector, 'paused' AS cause FROM connections AS c
    WHERE c.paused_at IS NOT NULL AND c.deleted_at IS NULL LIMIT @most
) AS p
UNION ALL
SELECT b.connection_id, b.connector, b.cause FROM (
    SELECT c.id AS connection_id, c.connector, 'breaker' AS cause, s.ended_at, s.end_at
    FROM stops AS s JOIN connections AS c ON c.id = s.connection_id
    WHERE s.cause = 2 AND s.ended_at IS NULL AND c.deleted_at IS NULL LIMIT @most
) AS b WHERE end_at > @now::timestamptz;
