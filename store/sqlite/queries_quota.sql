-- What projects have, for quotas.

-- name: AddUse :exec
INSERT INTO project_use (project, jobs, bytes) VALUES (@project, @jobs, @bytes)
ON CONFLICT (project) DO UPDATE SET jobs = jobs + excluded.jobs, bytes = bytes + excluded.bytes;
