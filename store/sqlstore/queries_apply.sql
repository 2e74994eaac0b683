-- What few changes of jobs write.

-- name: SetContent :exec
UPDATE jobs SET
    payload = @payload, labels = @labels, own_effect_key = @own_effect_key, delivery = @delivery, retry = @retry,
    attempt_timeout = @attempt_timeout, time_zone = @time_zone
WHERE id = @id;

-- name: AddRecipient :exec
INSERT INTO job_recipients (job_id, project, recipient) VALUES (@job_id, @project, @recipient);

-- name: AddCallback :exec
INSERT INTO job_callbacks (job_id, connection_id) VALUES (@job_id, @connection_id);

-- name: RemoveRecipients :exec
DELETE FROM job_recipients WHERE job_id = @job_id;

-- name: TakeEffectKey :execrows
INSERT INTO effect_keys (digest, job_id) VALUES (@digest, @job_id) ON CONFLICT (digest) DO NOTHING;

-- name: InsertResolution :one
INSERT INTO resolutions (job_id, ruling, actor, note, at) VALUES (@job_id, @ruling, @actor, @note, @now) RETURNING id;

-- name: HoldAuth :exec
-- A refusal of a credential that was replaced meanwhile holds nothing.
UPDATE connection_ready AS r
SET auth_hold_at = coalesce(r.auth_hold_at, @now::timestamptz), auth_hold_reason = @reason, auth_hold_cause = @cause
FROM connections AS c
WHERE r.connection_id = @connection_id AND r.hold_key = @hold_key
    AND c.id = r.connection_id AND c.credential_version = @credential_version;

-- name: HoldRate :exec
UPDATE connection_ready SET rate_limited_until = @until::timestamptz, rate_limit_reason = @reason
WHERE connection_id = @connection_id AND hold_key = @hold_key AND rate_limited_until < @until;

-- name: SettleAttempt :exec
-- Of an earlier attempt. The newest one's result is written with its job.
UPDATE /* SQLite: UPDATE OR FAIL */ attempts SET
    result = @result, kind = @kind, message = @message, http_status = @http_status, peer_ended = @peer_ended,
    bytes_written = greatest(bytes_written, @bytes_written), handle = CASE WHEN @handle::text = '' THEN handle ELSE @handle::text END,
    answer = coalesce(@answer, answer), ended_at = coalesce(ended_at, @now::timestamptz)
WHERE job_id = @job_id AND number = @number;

-- name: CloseAttempt :exec
-- As in SettleAttempt.
UPDATE /* SQLite: UPDATE OR FAIL */ attempts SET result = @result, ended_at = coalesce(ended_at, @now::timestamptz)
WHERE job_id = @job_id AND number = @number AND result IN (0, 4);

-- name: InsertObservation :exec
INSERT INTO observations (job_id, attempt, verdict, external_id, external_url, handle, detail, begun_at, ended_at)
VALUES (@job_id, @attempt, @verdict, @external_id, @external_url, @handle, @detail, @begun_at, @ended_at);

-- name: ShareEffect :exec
-- Another job names the same object, and may take it over.
UPDATE effects SET shared_with = @shared_with, told = true, owns_id = owns_id AND NOT @takes::boolean WHERE job_id = @job_id;

-- name: NotifyReply :exec
-- No change of the reply: no version, no event.
UPDATE job_state SET waits_for = @waits_for, predecessor_end = @predecessor_end, start_deadline = @start_deadline
WHERE job_id = @job_id;

-- name: Recount :exec
-- For a job that left the runnable row without a claim.
UPDATE connection_ready SET next_at = (
    SELECT s.next_at FROM job_state AS s
    WHERE s.connection_id = @connection_id AND s.hold_key = @hold_key AND s.state IN (1, 6) AND s.waits_for IS NULL
    ORDER BY s.next_at LIMIT 1
)
WHERE connection_ready.connection_id = @connection_id AND connection_ready.hold_key = @hold_key;
