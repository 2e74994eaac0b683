-- What projects have, for quotas.

-- name: AddUse :exec
INSERT INTO project_use (project, jobs, bytes) VALUES (@project, @jobs, @bytes);

-- name: FoldUse :exec
-- Replaces rows by their sum. Rows that another server folds at this moment are left to it,
-- so both keep the sum.
WITH gone AS (
    DELETE FROM project_use WHERE ctid = ANY (ARRAY(
        SELECT u.ctid FROM project_use AS u WHERE u.project = @project LIMIT @max_rows FOR UPDATE SKIP LOCKED
    ))
    RETURNING project, jobs, bytes
)
INSERT INTO project_use (project, jobs, bytes) SELECT project, sum(jobs), sum(bytes) FROM gone GROUP BY project;

-- name: LockUse :exec
-- Serializes transactions that add the same kind of object to a project: each counts what
-- those before it have added.
SELECT pg_advisory_xact_lock(@kind::integer, hashtext(@project::text));
