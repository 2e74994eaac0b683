-- Recurring schedules and their firings. See lock_order.go for the order of the locks.

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
