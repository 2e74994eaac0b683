-- Jobs that count as sent without a proof.

-- name: UnprovenEffects :many
SELECT s.job_id, s.version, s.state, s.connection_id, s.hold_key, s.class, e.proof, e.at
FROM (
    SELECT u.job_id, u.proof, u.at FROM effects AS u /* SQLite: u INDEXED BY effects_unproven */
    WHERE u.proof IN (4, 5) AND u.at >= @since::timestamptz ORDER BY u.at DESC LIMIT @max_rows
) AS e CROSS JOIN job_state AS s
WHERE s.job_id = e.job_id AND s.project = @project AND s.state = 8;

-- name: CountUnproven :one
SELECT count(*) FROM (
    SELECT u.job_id FROM effects AS u /* SQLite: u INDEXED BY effects_unproven */ WHERE u.proof IN (4, 5) AND u.at >= @since::timestamptz ORDER BY u.at DESC LIMIT @max_rows
) AS e;
