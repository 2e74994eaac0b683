-- The columns by which jobs are searched.

-- name: AddRecipient :exec
INSERT INTO job_recipients (job_id, project, recipient) VALUES (?, ?, ?);

-- name: RemoveRecipients :exec
DELETE FROM job_recipients WHERE job_id = ?;
