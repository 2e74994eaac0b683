-- The log of events. Its pages have queries of their own in each engine.

-- name: JobHistories :many
-- The parts of a job's history that have the events after a sequence, up to another one.
SELECT h.last_sequence, h.body FROM job_history AS h
WHERE h.job_id = @job_id AND h.last_sequence > @after AND h.last_sequence <= coalesce(
    (SELECT min(l.last_sequence) FROM job_history AS l WHERE l.job_id = @job_id AND l.last_sequence >= @up_to), 9223372036854775807
)
UNION ALL
SELECT s.version, s.history FROM job_state AS s WHERE s.job_id = @job_id AND s.version > @after
ORDER BY last_sequence;

-- name: EventsOf :one
-- What all events of a job have.
SELECT project, connection_id, schedule_id FROM jobs WHERE id = @job_id;

-- name: JobTexts :many
SELECT sequence, reason, detail FROM event_texts WHERE job_id = @job_id AND sequence > @after AND sequence <= @up_to;

-- name: TextsAt :many
SELECT position, reason, detail FROM event_texts WHERE position = ANY (@positions::bigint[]);

-- name: JobNames :many
SELECT j.id, j.project, j.idem_key, j.labels, c.connection_id AS callback
FROM jobs AS j LEFT JOIN job_callbacks AS c ON c.job_id = j.id WHERE j.id = ANY (@ids::uuid[]);
