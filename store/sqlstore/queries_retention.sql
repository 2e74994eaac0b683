-- Retention. Only transactions that need a job which ended long ago wait for its locks.

-- the log

-- name: LogBounds :one
SELECT m.events_from, coalesce((SELECT max(e.position) FROM event_pages AS e), 0)::bigint AS last, p.position AS counted
FROM meta AS m JOIN rollup_place AS p ON p.id = 1 WHERE m.id = 1;

-- name: NewestPage :one
-- The newest page at or before a position, but never the very last one of the log: positions
-- continue from it, and are compared with it.
SELECT e.position, e.at FROM event_pages AS e
WHERE e.position <= @at AND e.position <= event_horizon() /* SQLite: 9223372036854775807 */
    AND e.position < (SELECT max(l.position) FROM event_pages AS l)
ORDER BY e.position DESC LIMIT 1;

-- name: RaiseEventsFrom :exec
UPDATE meta SET events_from = @events_from WHERE id = 1 AND events_from < @events_from;

-- name: OldPages :many
SELECT position, events FROM event_pages WHERE position > @after AND position <= @up_to ORDER BY position LIMIT @max_rows;

-- name: DropPages :exec
DELETE FROM event_pages WHERE position > @after AND position <= @up_to;

-- name: DropTexts :exec
-- Texts of events whose jobs are removed.
DELETE FROM event_texts WHERE event_texts.position > @after AND event_texts.position <= @up_to
    AND NOT EXISTS (SELECT 1 FROM job_state AS s WHERE s.job_id = event_texts.job_id);

-- jobs

-- name: LockEnded :many
-- The next jobs of a project and a state that ended by then.
SELECT s.job_id, s.connection_id, s.ended_at, j.reply_to, j.idem_key, c.connector, c.key_window,
    (length(j.payload) + coalesce(length(s.answer), 0)
        + coalesce((SELECT sum(length(a.answer)) FROM attempts AS a WHERE a.job_id = s.job_id), 0))::bigint AS bytes
FROM job_state AS s JOIN jobs AS j ON j.id = s.job_id JOIN connections AS c ON c.id = j.connection_id
WHERE s.project = @project AND s.state = @state AND s.ended_at IS NOT NULL
    AND s.ended_at >= @after AND s.ended_at <= @until
    AND (s.ended_at, s.connection_id, s.job_id) > (@after, @after_connection::uuid, @after_id::uuid)
ORDER BY s.ended_at, s.connection_id, s.job_id LIMIT @max_rows FOR UPDATE OF s SKIP LOCKED;

-- name: LockTheseEnded :many
SELECT s.job_id, s.connection_id, s.ended_at, j.reply_to, j.idem_key, c.connector, c.key_window,
    (length(j.payload) + coalesce(length(s.answer), 0)
        + coalesce((SELECT sum(length(a.answer)) FROM attempts AS a WHERE a.job_id = s.job_id), 0))::bigint AS bytes
FROM job_state AS s JOIN jobs AS j ON j.id = s.job_id JOIN connections AS c ON c.id = j.connection_id
WHERE s.job_id = ANY (@ids::uuid[]) AND s.ended_at <= @until FOR UPDATE OF s SKIP LOCKED;

-- name: NextProject :one
SELECT project FROM job_state WHERE ended_at IS NOT NULL AND project > @project ORDER BY project LIMIT 1;

-- name: Replies :many
-- Run it after the jobs are locked: a transaction that submits a reply locks them too.
SELECT id, reply_to FROM jobs WHERE reply_to = ANY (@ids::uuid[]);

-- name: RemoveAttempts :exec
DELETE FROM attempts WHERE job_id = ANY (@ids::uuid[]);

-- name: RemoveObservations :exec
DELETE FROM observations WHERE job_id = ANY (@ids::uuid[]);

-- name: RemoveResolutions :exec
DELETE FROM resolutions WHERE job_id = ANY (@ids::uuid[]);

-- name: KeepObjects :exec
-- Objects that a look of another job may find: of targets that are looked up.
UPDATE effects SET job_removed = true, external_url = ''
WHERE job_id = ANY (@ids::uuid[]) AND owns_id AND external_id <> ''
    AND EXISTS (SELECT 1 FROM job_state AS s WHERE s.job_id = effects.job_id AND s.class IN (2, 3));

-- name: RemoveEffects :exec
DELETE FROM effects WHERE job_id = ANY (@ids::uuid[]) AND NOT job_removed;

-- name: RemoveHistories :exec
DELETE FROM job_history WHERE job_id = ANY (@ids::uuid[]);

-- name: RemoveTexts :exec
-- Later texts are dropped with the pages of the log.
DELETE FROM event_texts WHERE job_id = ANY (@ids::uuid[]) AND position <= @dropped_to;

-- name: RemoveKeys :execrows
DELETE FROM job_keys WHERE digest = ANY (@digests::bytea[]) AND job_id = ANY (@ids::uuid[]);

-- name: KeepKey :batchexec
UPDATE job_keys SET kept_until = @until::timestamptz WHERE digest = @digest AND job_id = @job_id;

-- name: RemoveStates :execrows
DELETE FROM job_state WHERE job_id = ANY (@ids::uuid[]);

-- name: RemoveJobs :execrows
DELETE FROM jobs WHERE id = ANY (@ids::uuid[]);

-- what outlives its job

-- name: ForgetKeys :execrows
DELETE FROM job_keys WHERE digest IN (
    SELECT o.digest FROM job_keys AS o WHERE o.kept_until <= @now ORDER BY o.kept_until LIMIT @max_rows
);

-- name: FirstStart :one
-- The oldest first attempt of stored jobs whose looks may find objects of others.
SELECT coalesce(min(first_armed_at), @now)::timestamptz AS armed_at FROM job_state
WHERE class IN (2, 3) AND first_armed_at IS NOT NULL;

-- name: ForgetObjects :execrows
DELETE FROM effects WHERE job_id IN (
    SELECT o.job_id FROM effects AS o
    WHERE o.job_removed /* SQLite: o.job_removed = 1 */ AND o.at < @before ORDER BY o.at LIMIT @max_rows
);

-- firings

-- name: LockOldFirings :many
-- Firings of schedules that no other transaction has locked.
SELECT f.schedule_id, f.name FROM firings AS f JOIN schedules AS s ON s.id = f.schedule_id
WHERE f.decided_at < @before ORDER BY f.decided_at LIMIT @max_rows FOR NO KEY UPDATE OF s SKIP LOCKED;

-- name: RemoveFiring :batchexec
DELETE FROM firings WHERE schedule_id = @schedule_id AND name = @name;

-- name: RaiseLedgers :exec
UPDATE schedules SET ledger_begin = @before WHERE id = ANY (@ids::uuid[]) AND ledger_begin < @before;
