-- Retention. Each statement finds its rows by an index, because the writer has no time for a
-- scan.

-- the log

-- name: NewestPage :one
-- The newest page at or before a position, but never the log's very last one: positions
-- continue from it, and are compared with it.
SELECT p.position, p.at FROM event_pages AS p
WHERE p.position <= @at AND p.position < (SELECT max(l.position) FROM event_pages AS l)
ORDER BY p.position DESC LIMIT 1;

-- name: RaiseEventsFrom :exec
UPDATE meta SET events_from = @events_from WHERE id = 1 AND events_from < @events_from;

-- name: OldPages :many
SELECT p.position, p.events FROM event_pages AS p
WHERE p.position > @after AND p.position <= @up_to ORDER BY p.position LIMIT @max_rows;

-- name: DropPage :exec
DELETE FROM event_pages WHERE position = ?;

-- name: DropTexts :exec
-- Texts of events whose jobs are removed.
DELETE FROM event_texts WHERE event_texts.position > @after AND event_texts.position <= @up_to
    AND NOT EXISTS (SELECT 1 FROM job_state AS s WHERE s.job_id = event_texts.job_id);

-- name: SetDroppedTo :exec
UPDATE meta SET dropped_to = @dropped_to WHERE id = 1;

-- jobs

-- name: EndedJobs :many
-- The next jobs of a project and a state that ended by then.
SELECT s.job_id, s.connection_id, s.ended_at, s.class, j.reply_to, j.project, j.idem_key,
    CAST(length(j.payload) + coalesce(length(s.answer), 0)
        + coalesce((SELECT sum(length(a.answer)) FROM attempts AS a WHERE a.job_id = s.job_id), 0) AS INTEGER) AS bytes
FROM job_state AS s JOIN jobs AS j ON j.id = s.job_id
WHERE s.project = @project AND s.state = @state AND s.ended_at IS NOT NULL
    AND s.ended_at >= @after AND s.ended_at <= @until
    AND (s.ended_at > @after OR s.connection_id > @after_connection
        OR s.connection_id = @after_connection AND s.job_id > @after_id)
ORDER BY s.ended_at, s.connection_id, s.job_id LIMIT @max_rows;

-- name: EndedJob :one
SELECT s.job_id, s.connection_id, s.ended_at, s.class, j.reply_to, j.project, j.idem_key,
    CAST(length(j.payload) + coalesce(length(s.answer), 0)
        + coalesce((SELECT sum(length(a.answer)) FROM attempts AS a WHERE a.job_id = s.job_id), 0) AS INTEGER) AS bytes
FROM job_state AS s JOIN jobs AS j ON j.id = s.job_id
WHERE s.job_id = @job_id AND s.ended_at IS NOT NULL AND s.ended_at <= @until;

-- name: NextProject :one
SELECT project FROM job_state WHERE ended_at IS NOT NULL AND project > ? ORDER BY project LIMIT 1;

-- name: HasReplies :one
SELECT CAST(EXISTS (SELECT 1 FROM jobs AS r WHERE r.reply_to = ?) AS INTEGER);

-- name: RemoveAttempts :exec
DELETE FROM attempts WHERE job_id = ?;

-- name: RemoveObservations :exec
DELETE FROM observations WHERE job_id = ?;

-- name: RemoveResolutions :exec
DELETE FROM resolutions WHERE job_id = ?;

-- name: KeepObject :exec
UPDATE effects SET job_removed = 1, external_url = '' WHERE job_id = ? AND owns_id = 1 AND external_id <> '';

-- name: RemoveEffect :exec
DELETE FROM effects WHERE job_id = ? AND job_removed = 0;

-- name: RemoveHistory :exec
DELETE FROM job_history WHERE job_id = ?;

-- name: RemoveTexts :exec
-- Later texts are dropped with the log.
DELETE FROM event_texts WHERE job_id = @job_id AND position <= @dropped_to;

-- name: RemoveKey :execrows
DELETE FROM job_keys WHERE digest = ? AND job_id = ?;

-- name: KeepKey :exec
UPDATE job_keys SET kept_until = ? WHERE digest = ? AND job_id = ?;

-- name: RemoveState :exec
DELETE FROM job_state WHERE job_id = ?;

-- name: RemoveJob :exec
DELETE FROM jobs WHERE id = ?;

-- what outlives its job

-- name: KeysOver :many
SELECT digest FROM job_keys WHERE kept_until <= @now ORDER BY kept_until LIMIT @max_rows;

-- name: ForgetKey :exec
DELETE FROM job_keys WHERE digest = ?;

-- name: FirstStart :one
-- Of all jobs that look for their objects.
SELECT s.first_armed_at FROM job_state AS s
WHERE s.class IN (2, 3) AND s.first_armed_at IS NOT NULL ORDER BY s.first_armed_at LIMIT 1;

-- name: ObjectsBefore :many
SELECT job_id FROM effects WHERE job_removed = 1 AND at < @before ORDER BY at LIMIT @max_rows;

-- name: ForgetObject :exec
DELETE FROM effects WHERE job_id = ? AND job_removed = 1;
