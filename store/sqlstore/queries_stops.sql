-- Stops (store.Stops).

-- name: StopsFor :many
-- Those that have not ended and may be over these connections and hold keys, or over any of
-- their jobs. The wide ones are few.
SELECT * FROM stops WHERE ended_at IS NULL AND scope NOT IN (4, 5)
UNION ALL
SELECT * FROM stops WHERE ended_at IS NULL AND scope = 4 AND connection_id = ANY (@connections::uuid[])
UNION ALL
SELECT * FROM stops WHERE ended_at IS NULL AND scope = 5 AND cause <> 2 AND hold_key = ANY (@hold_keys::text[])
UNION ALL
SELECT * FROM stops WHERE ended_at IS NULL AND cause = 2
    AND connection_id = ANY (@connections::uuid[]) AND hold_key = ANY (@hold_keys::text[]);

-- name: HoldingStops :many
-- Those that hold windows, may be over these connections and hold keys, and had not ended at @since.
SELECT * FROM stops
WHERE hold_windows AND (ended_at IS NULL OR ended_at >= @since::timestamptz) AND (end_at IS NULL OR end_at >= @since)
    AND (
        scope NOT IN (4, 5) OR scope = 4 AND connection_id = ANY (@connections::uuid[])
        OR scope = 5 AND hold_key = ANY (@hold_keys::text[])
    );

-- name: BeginWindow :exec
-- No change of the job: no version, no event.
UPDATE /* SQLite: UPDATE OR FAIL */ job_state SET start_deadline = @start_deadline WHERE job_id = @job_id;

-- name: StopTargets :many
-- Jobs as stops see them.
SELECT s.job_id, s.project, s.connection_id, s.hold_key, c.connector, j.labels
FROM job_state AS s JOIN connections AS c ON c.id = s.connection_id JOIN jobs AS j ON j.id = s.job_id
WHERE s.job_id = ANY (@ids::uuid[]);

-- name: LockStop :one
-- Waits for claims that set work aside by it.
SELECT * FROM stops WHERE id = @id FOR UPDATE;

-- name: StopPlace :one
SELECT created_at FROM stops WHERE id = @id;

-- name: ListStops :many
SELECT * FROM stops
WHERE (created_at, id) < (@after_at::timestamptz, @after_id::uuid)
    AND (@project::text = '' OR project = '' OR project = @project)
    AND (@ended::boolean OR ended_at IS NULL AND (end_at IS NULL OR end_at > @now::timestamptz))
ORDER BY created_at DESC, id DESC LIMIT @max_rows;

-- name: CountStops :one
-- How many of a kind may hold jobs back now or later.
SELECT count(*) FROM stops
WHERE ended_at IS NULL AND (end_at IS NULL OR end_at > @now::timestamptz) AND (scope NOT IN (4, 5)) = @wide::boolean
    AND (cause = 2) = @breaker::boolean;

-- name: InsertStop :execrows
INSERT INTO stops (
    id, scope, project, connector, connection_id, hold_key, label, value, cause, note,
    begin_at, end_at, planned, created_at, created_by, hold_windows, probe_at, probes
) VALUES (
    @id, @scope, @project, @connector, @connection_id, @hold_key, @label, @value, @cause, @note,
    @begin_at, @end_at, @planned, @created_at, @created_by, @hold_windows, @probe_at, @probes
)
ON CONFLICT (id) DO NOTHING;

-- name: SetStopNote :exec
UPDATE stops SET note = @note WHERE id = @id;

-- name: SetStopEnded :exec
UPDATE stops SET ended_at = @ended_at, ended_by = @ended_by WHERE id = @id;

-- name: BreakerOf :one
SELECT * FROM stops WHERE cause = 2 AND connection_id = @connection::uuid AND hold_key = @hold_key;

-- name: RemoveStop :exec
DELETE FROM stops WHERE id = @id;

-- name: TakeProbe :execrows
-- Claims that set rows aside by the breaker are waited for.
UPDATE stops SET prober = @prober, probe_at = @until, end_at = @end_at
WHERE id = @id AND cause = 2 AND ended_at IS NULL AND end_at > @now AND (probe_at <= @now OR prober = @prober);

-- name: SetProbe :exec
UPDATE stops SET prober = NULL, probe_at = @probe_at, end_at = @end_at, probes = @probes, note = @note WHERE id = @id;

-- name: PruneStops :exec
DELETE FROM stops WHERE ended_at < @before::timestamptz OR ended_at IS NULL AND end_at < @before;

-- name: SetOpenStops :exec
-- After every change of a stop. One that ends by itself counts until then: the number is no more
-- than a reason to ask.
UPDATE meta SET stops = (
    SELECT count(*) FROM stops AS s WHERE s.ended_at IS NULL AND (s.end_at IS NULL OR s.end_at > @now::timestamptz)
) WHERE id = 1;

-- name: StoppedJobs :many
-- Jobs that a stop has put off one by one (job.Stopped), and that no other transaction works on:
-- all, or those of a row of connection_ready, or of these those that wait to be repeated.
SELECT job_id, connection_id, hold_key, state FROM job_state
WHERE blocked = 'waits for the end of a pause' AND state IN (1, 5, 6)
    AND next_at > @now AND claim_token IS NULL AND waits_for IS NULL
    AND (@hold_key::text = '' OR hold_key = @hold_key AND connection_id = @connection::uuid) AND (NOT @repeats::boolean OR state = 5)
ORDER BY next_at LIMIT @max_rows FOR NO KEY UPDATE SKIP LOCKED;

-- name: WakeStopped :exec
-- No change of the jobs: no version, no event.
UPDATE job_state SET next_at = @now WHERE job_id = ANY (@ids::uuid[]);

-- name: WakeRunnable :exec
-- Rows of jobs that are due now.
WITH u AS (
    SELECT unnest(@connections::uuid[]) AS connection_id, unnest(@hold_keys::text[]) AS hold_key
)
UPDATE connection_ready AS r SET next_at = least(coalesce(r.next_at, @now::timestamptz), @now::timestamptz)
FROM u WHERE r.connection_id = u.connection_id AND r.hold_key = u.hold_key;

-- name: EndSetAside :exec
-- All rows, or one.
-- Locks the rows in the lock order.
UPDATE connection_ready AS r SET stopped_until = @until::timestamptz
FROM (
    SELECT a.connection_id, a.hold_key FROM connection_ready AS a WHERE a.stopped_until > 'epoch'
        AND (@hold_key::text = '' OR a.hold_key = @hold_key AND a.connection_id = @connection::uuid)
    ORDER BY a.connection_id, a.hold_key FOR NO KEY UPDATE
) AS u
WHERE r.connection_id = u.connection_id AND r.hold_key = u.hold_key;

-- name: PreviewWindows :many
-- Of the jobs whose windows end first, those that a stop would cover. EXISTS after OR is looked up job by job; a
-- plan of a join that was made when the tables were empty reads all jobs for each.
SELECT s.job_id FROM (
    SELECT w.job_id, w.start_deadline, w.project, w.connection_id, w.hold_key FROM job_state AS w
    WHERE w.state /* SQLite: w.listed IN (1, 6) AND w.state */ IN (1, 6) AND w.start_deadline < 'infinity'
        AND w.start_deadline > @now AND w.start_deadline <= @until
    ORDER BY w.start_deadline LIMIT @most
) AS s
WHERE (@project::text = '' OR s.project = @project)
    AND (@connector::text = '' OR EXISTS (SELECT 1 FROM connections AS c WHERE c.id = s.connection_id AND c.connector = @connector))
    AND (@any_connection::boolean OR s.connection_id = @connection::uuid) AND (@hold_key::text = '' OR s.hold_key = @hold_key)
    AND (sqlc.arg('labels')::text = '{}' OR EXISTS (SELECT 1 FROM jobs AS j WHERE j.id = s.job_id AND j.labels @> sqlc.arg('labels')::text::jsonb))
ORDER BY s.start_deadline LIMIT @max_rows;

-- name: PreviewRepeats :many
-- Jobs that wait to be repeated under their keys: class 1 is KEYED. Every look is after the epoch: the condition is
-- for the planner, which takes the index of looks for it.
SELECT s.job_id FROM (
    SELECT w.job_id, w.next_at, w.project, w.connection_id, w.hold_key FROM job_state AS w
    WHERE w.state IN (4, 5) AND w.state = 5 AND w.next_at > 'epoch' AND w.class = 1 AND w.cancel_asked_at IS NULL
    ORDER BY w.next_at LIMIT @most
) AS s
WHERE (@project::text = '' OR s.project = @project)
    AND (@connector::text = '' OR EXISTS (SELECT 1 FROM connections AS c WHERE c.id = s.connection_id AND c.connector = @connector))
    AND (@any_connection::boolean OR s.connection_id = @connection::uuid) AND (@hold_key::text = '' OR s.hold_key = @hold_key)
    AND (sqlc.arg('labels')::text = '{}' OR EXISTS (SELECT 1 FROM jobs AS j WHERE j.id = s.job_id AND j.labels @> sqlc.arg('labels')::text::jsonb))
ORDER BY s.next_at LIMIT @max_rows;

-- name: PreviewUnderWay :one
-- Jobs that are SENDING. All of them are read: they are few, and 0 must mean that there is none. The
-- first condition is that of the index on jobs under way, which SQLite uses only if it is stated.
SELECT count(*) FROM (
    SELECT s.job_id FROM job_state AS s
    WHERE s.state IN (2, 3) AND s.state = 3
        AND (@project::text = '' OR s.project = @project)
        AND (@connector::text = '' OR EXISTS (SELECT 1 FROM connections AS c WHERE c.id = s.connection_id AND c.connector = @connector))
        AND (@any_connection::boolean OR s.connection_id = @connection::uuid) AND (@hold_key::text = '' OR s.hold_key = @hold_key)
        AND (sqlc.arg('labels')::text = '{}' OR EXISTS (SELECT 1 FROM jobs AS j WHERE j.id = s.job_id AND j.labels @> sqlc.arg('labels')::text::jsonb))
    LIMIT @most
) AS u;

-- name: PreviewWaiting :one
-- Of all jobs that wait to start, @most are read.
SELECT count(*) FROM (
    SELECT w.job_id, w.project, w.connection_id, w.hold_key FROM job_state AS w
    WHERE w.state /* SQLite: w.listed IN (1, 6) AND w.state */ IN (1, 6) AND w.start_deadline < 'infinity'
        AND w.waits_for IS NULL LIMIT @most
) AS s
WHERE (@connector::text = '' OR EXISTS (SELECT 1 FROM connections AS c WHERE c.id = s.connection_id AND c.connector = @connector))
    AND (@hold_key::text = '' OR s.hold_key = @hold_key);

-- name: PreviewWaitingOfProject :one
-- Of a project's jobs that wait to start, @most are read.
SELECT count(*) FROM (
    SELECT w.job_id, w.connection_id, w.hold_key FROM job_state AS w
    WHERE w.project = @project AND w.state /* SQLite: w.listed IN (1, 6) AND w.state */ IN (1, 6)
        AND w.waits_for IS NULL LIMIT @most
) AS s
WHERE (@connector::text = '' OR EXISTS (SELECT 1 FROM connections AS c WHERE c.id = s.connection_id AND c.connector = @connector))
    AND (@hold_key::text = '' OR s.hold_key = @hold_key)
    AND (sqlc.arg('labels')::text = '{}' OR EXISTS (SELECT 1 FROM jobs AS j WHERE j.id = s.job_id AND j.labels @> sqlc.arg('labels')::text::jsonb));

-- name: PreviewWaitingOfConnection :one
SELECT count(*) FROM (
    SELECT w.job_id FROM job_state AS w
    WHERE w.connection_id = @connection AND w.state IN (1, 6) AND w.waits_for IS NULL LIMIT @most
) AS s;
