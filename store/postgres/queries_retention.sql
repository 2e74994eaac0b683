-- Retention. One server at a time cleans: the one that has locked the row of retention. It
-- waits for no job, and only transactions that need a job which ended long ago wait for its
-- locks.

-- name: TakeRetention :many
SELECT owner, lease_until, dropped_to FROM retention WHERE id = 1 FOR UPDATE SKIP LOCKED;

-- name: LeaseRetention :exec
UPDATE retention SET owner = @owner::uuid, lease_until = @lease_until WHERE id = 1;

-- the log

-- name: NewestPage :one
-- The newest page at or before a position, but never the log's very last one, because
-- positions are compared with it.
SELECT e.position, e.at FROM event_pages AS e
WHERE e.position <= @at AND e.position <= event_horizon()
    AND e.position < (SELECT max(l.position) FROM event_pages AS l)
ORDER BY e.position DESC LIMIT 1;

-- name: LogBounds :one
SELECT m.events_from, coalesce((SELECT max(e.position) FROM event_pages AS e), 0)::bigint AS last, p.position AS counted
FROM meta AS m JOIN rollup_place AS p ON p.id = 1 WHERE m.id = 1;

-- name: RaiseEventsFrom :exec
UPDATE meta SET events_from = @events_from WHERE id = 1 AND events_from < @events_from;

-- name: DropPages :one
-- The next pages that the log no longer returns, with the texts of events whose jobs are
-- removed.
WITH part AS MATERIALIZED (
    SELECT e.position, e.events FROM event_pages AS e
    WHERE e.position > @after AND e.position <= @up_to ORDER BY e.position LIMIT @max_rows
),
gone AS (
    DELETE FROM event_pages AS e USING part AS p WHERE e.position = p.position
),
texts AS (
    DELETE FROM event_texts AS t
    WHERE t.position > @after AND t.position <= coalesce((SELECT max(position) FROM part), 0)
        AND NOT EXISTS (SELECT 1 FROM job_state AS s WHERE s.job_id = t.job_id)
)
SELECT count(*) AS pages, coalesce(max(position), 0)::bigint AS last, coalesce(sum(events), 0)::bigint AS dropped FROM part;

-- name: SetDroppedTo :exec
UPDATE retention SET dropped_to = @dropped_to WHERE id = 1;

-- jobs

-- name: LockEnded :many
-- The next jobs of a project that ended by then.
SELECT job_id, ended_at FROM job_state
WHERE project = @project AND ended_at IS NOT NULL AND ended_at >= @after AND ended_at <= @until
    AND (ended_at, job_id) > (@after, @after_id::uuid)
ORDER BY ended_at, job_id LIMIT @max_rows FOR UPDATE SKIP LOCKED;

-- name: NextProject :one
SELECT project FROM job_state WHERE ended_at IS NOT NULL AND project > @project ORDER BY project LIMIT 1;

-- name: Replies :many
-- Run it after the jobs are locked: a transaction that submits a reply locks them too.
SELECT id, reply_to FROM jobs WHERE reply_to = ANY (@ids::uuid[]);

-- name: RemoveAttempts :exec
WITH used AS (
    INSERT INTO project_use (project, jobs, bytes)
    SELECT s.project, 0, -sum(octet_length(a.answer))
    FROM every_attempt AS a JOIN job_state AS s ON s.job_id = a.job_id
    WHERE a.job_id = ANY (@ids::uuid[]) AND a.answer IS NOT NULL GROUP BY s.project
)
DELETE FROM attempts WHERE job_id = ANY (@ids::uuid[]);

-- name: RemoveObservations :exec
DELETE FROM observations WHERE job_id = ANY (@ids::uuid[]);

-- name: RemoveResolutions :exec
DELETE FROM resolutions WHERE job_id = ANY (@ids::uuid[]);

-- name: KeepObjects :exec
-- Objects that a look of another job may find: of targets that are looked up.
UPDATE effects AS e SET job_removed = true, external_url = '' FROM job_state AS s
WHERE s.job_id = ANY (@ids::uuid[]) AND s.class IN (2, 3) AND e.job_id = s.job_id
    AND e.owns_id AND e.external_id <> '';

-- name: RemoveEffects :exec
DELETE FROM effects WHERE job_id = ANY (@ids::uuid[]) AND NOT job_removed;

-- name: RemoveHistories :exec
DELETE FROM job_history WHERE job_id = ANY (@ids::uuid[]);

-- name: RemoveTexts :exec
-- Later texts are dropped with the log's pages.
DELETE FROM event_texts WHERE job_id = ANY (@ids::uuid[]) AND position <= @dropped_to;

-- name: KeysOf :many
-- What determines how long the keys of jobs are kept.
SELECT j.id, j.project, j.idem_key, c.connector, c.key_window
FROM jobs AS j JOIN connections AS c ON c.id = j.connection_id WHERE j.id = ANY (@ids::uuid[]);

-- name: RemoveKeys :execrows
WITH u AS (SELECT unnest(@digests::bytea[]) AS digest, unnest(@ids::uuid[]) AS id)
DELETE FROM job_keys AS k USING u WHERE k.digest = u.digest AND k.job_id = u.id;

-- name: KeepKeys :exec
WITH u AS (
    SELECT unnest(@digests::bytea[]) AS digest, unnest(@ids::uuid[]) AS id, unnest(@untils::timestamptz[]) AS until
)
UPDATE job_keys AS k SET kept_until = u.until FROM u WHERE k.digest = u.digest AND k.job_id = u.id;

-- name: RemoveStates :execrows
DELETE FROM job_state WHERE job_id = ANY (@ids::uuid[]);

-- name: RemoveJobs :execrows
WITH used AS (
    INSERT INTO project_use (project, jobs, bytes)
    SELECT project, -count(*), -sum(octet_length(payload)) FROM jobs WHERE id = ANY (@ids::uuid[]) GROUP BY project
)
DELETE FROM jobs WHERE id = ANY (@ids::uuid[]);

-- what outlives its job

-- name: ForgetKeys :execrows
DELETE FROM job_keys AS k USING (
    SELECT o.digest FROM job_keys AS o
    WHERE o.kept_until <= @now ORDER BY o.kept_until LIMIT @max_rows
) AS u
WHERE k.digest = u.digest;

-- name: FirstStart :one
-- The oldest first attempt of stored jobs whose looks may find objects of others.
SELECT coalesce(min(first_armed_at), @now)::timestamptz AS armed_at FROM job_state
WHERE class IN (2, 3) AND first_armed_at IS NOT NULL;

-- name: ForgetObjects :execrows
DELETE FROM effects AS e USING (
    SELECT o.job_id FROM effects AS o
    WHERE o.job_removed AND o.at < @before ORDER BY o.at LIMIT @max_rows
) AS u
WHERE e.job_id = u.job_id;
