-- Objects that platforms created.

-- name: ObjectSpace :one
-- What names the account of a job's attempt, and the namespace of its objects' ids.
SELECT s.connection_id, s.hold_key, c.connector, c.account_identity,
    coalesce(CASE s.attempt WHEN @attempt::bigint THEN s.account_identity ELSE a.account_identity END, '')::text AS acted
FROM job_state AS s
JOIN connections AS c ON c.id = s.connection_id
LEFT JOIN attempts AS a ON a.job_id = s.job_id AND a.number = @attempt::bigint
WHERE s.job_id = @job_id;

-- name: OwnedObjects :many
SELECT external_id, job_id, proof, job_removed, told FROM effects
WHERE account = @account AND namespace = @namespace AND external_id = ANY (@external_ids::text[])
    AND external_id <> '' AND owns_id /* SQLite: owns_id = 1 */;
