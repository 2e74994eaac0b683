-- The columns by which jobs are searched.

-- name: AddRecipients :exec
INSERT INTO job_recipients (job_id, project, recipient)
SELECT unnest(@ids::uuid[]), unnest(@projects::text[]), unnest(@recipients::text[]);
