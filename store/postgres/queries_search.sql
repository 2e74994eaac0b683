-- The columns by which jobs are searched.

-- name: AddCallbacks :exec
INSERT INTO job_callbacks (job_id, connection_id) SELECT unnest(@ids::uuid[]), unnest(@connections::uuid[]);

-- name: AddRecipients :exec
INSERT INTO job_recipients (job_id, project, recipient)
SELECT unnest(@ids::uuid[]), unnest(@projects::text[]), unnest(@recipients::text[]);
