-- Jobs whose sender may be gone.

-- name: Workers :many
-- The workers that claimed or armed the jobs under way.
SELECT DISTINCT worker FROM job_state WHERE state IN (2, 3);

-- name: OrphanIDs :many
-- Class 1 is KEYED.
SELECT job_id FROM job_state
WHERE state IN (2, 3) AND worker = ANY (@workers::text[])
    AND CASE WHEN state = 2 THEN claims = 0 ELSE class = 1 AND cancel_asked_at IS NULL END
    AND (next_at, job_id) > (@after_at::timestamptz, @after_id::uuid)
ORDER BY next_at, job_id LIMIT @max_rows;
