-- Subscriptions and their notices.

-- name: InsertSubscription :execrows
-- Waits for another transaction that binds the key.
INSERT INTO subscriptions (
    id, project, idem_key, key_digest, fingerprint, version, revision, callbacks, connection_id, display_name, spec, state,
    pause_cause, note, paused_at, position, incarnation, memory, next_at, only_then, asked, number, open_number, open_job,
    failed_number, failures, failing_at, last_error, delivered_at, created_at, updated_at, deleted_at, created_by, updated_by
) VALUES (
    @id, @project, @idem_key, @key_digest, @fingerprint, @version, @revision, @callbacks, @connection_id, @display_name,
    @spec, @state, @pause_cause, @note, @paused_at, @position, @incarnation, @memory, @next_at, @only_then, @asked,
    @number, @open_number, @open_job, @failed_number, @failures, @failing_at, @last_error, @delivered_at, @created_at,
    @updated_at, @deleted_at, @created_by, @updated_by
) ON CONFLICT (key_digest) DO NOTHING;

-- name: GetSubscription :one
SELECT * FROM subscriptions WHERE id = @id;

-- name: SubscriptionByKey :one
SELECT * FROM subscriptions WHERE key_digest = @key_digest;

-- name: LockSubscription :one
SELECT * FROM subscriptions WHERE id = @id FOR UPDATE;

-- name: SubscriptionsPage :many
SELECT * FROM subscriptions
WHERE project = @project AND (created_at, id) < (@after_time::timestamptz, @after_id::uuid)
ORDER BY created_at DESC, id DESC LIMIT @max_rows;

-- name: CountSubscriptions :one
SELECT count(*) FROM subscriptions WHERE project = @project AND state < 3 AND NOT callbacks;

-- name: SetSubscription :execrows
UPDATE subscriptions SET
    version = @version, revision = @revision, connection_id = @connection_id, display_name = @display_name, spec = @spec,
    state = @state, pause_cause = @pause_cause, note = @note, paused_at = @paused_at, position = @position,
    incarnation = @incarnation, memory = @memory, next_at = @next_at, only_then = @only_then, asked = @asked,
    number = @number, open_number = @open_number, open_job = @open_job, failed_number = @failed_number,
    failures = @failures, failing_at = @failing_at, last_error = @last_error, delivered_at = @delivered_at,
    updated_at = @updated_at, deleted_at = @deleted_at, updated_by = @updated_by
WHERE id = @id AND subscriptions.revision + 1 = @revision;

-- name: DueSubscriptions :many
-- Those that have a step to make, after an id: the notice under way has ended or needs a
-- person, who is not asked, or its subscription is deleted and its cancel was not asked for;
-- something was asked for; or, while active, it is time or the log has an event that was not
-- read. None in a quarantine.
SELECT s.id FROM subscriptions AS s
WHERE s.id > @after_id::uuid AND (s.state = 1 OR s.open_job IS NOT NULL OR s.asked <> 0)
    AND (SELECT q.quarantined FROM meta AS q WHERE q.id = 1) = ''
    AND CASE WHEN s.open_job IS NOT NULL
        THEN NOT EXISTS (
            SELECT 1 FROM job_state AS j
            WHERE j.job_id = s.open_job AND j.state < 7 AND (s.state <> 3 OR j.cancel_asked_at IS NOT NULL)
        )
        ELSE s.asked <> 0 OR s.state = 1 AND (
            s.next_at <= @now::timestamptz
            OR NOT s.only_then AND (
                EXISTS (SELECT 1 FROM event_pages AS e WHERE e.project = s.project AND e.position > s.position)
                OR s.incarnation <> (SELECT m.incarnation FROM meta AS m WHERE m.id = 1)
            )
        )
    END
ORDER BY s.id LIMIT @max_rows;

-- name: NextSubscription :one
-- None in a quarantine.
SELECT min(s.next_at)::timestamptz AS next_at FROM subscriptions AS s
WHERE s.state = 1 AND s.open_job IS NULL AND (SELECT m.quarantined FROM meta AS m WHERE m.id = 1) = '';

-- name: InsertNotice :exec
INSERT INTO notices (
    subscription_id, number, kind, after_position, to_position, incarnation, events, tries, job_id, made_at, ended_at, outcome
) VALUES (
    @subscription_id, @number, @kind, @after_position, @to_position, @incarnation, @events, 1, @job_id, @made_at, NULL, 0
);

-- name: ReopenNotice :execrows
UPDATE notices SET tries = tries + 1, job_id = @job_id, ended_at = NULL, outcome = 0
WHERE subscription_id = @subscription_id AND number = @number AND ended_at IS NOT NULL;

-- name: EndNotice :execrows
UPDATE notices SET ended_at = @ended_at::timestamptz, outcome = @outcome
WHERE subscription_id = @subscription_id AND number = @number AND ended_at IS NULL;

-- name: WakeNotice :exec
-- A row that a stop has set aside is looked at again: the notice may pass the stop. Those that wait
-- only for the head start of repeats go on waiting.
UPDATE connection_ready SET stopped_until = @now::timestamptz
WHERE connection_id = @connection_id AND hold_key = @hold_key AND stopped_until > @later::timestamptz;

-- name: RemoveNotices :exec
-- Those that are no longer kept, a few with each new one.
DELETE FROM notices WHERE notices.subscription_id = @subscription_id AND notices.number IN (
    SELECT o.number FROM notices AS o WHERE o.subscription_id = @subscription_id AND o.number <= @up_to AND o.ended_at IS NOT NULL
    ORDER BY o.number LIMIT @max_rows
);

-- name: NoticesBefore :many
SELECT * FROM notices WHERE subscription_id = @subscription_id AND number < @before ORDER BY number DESC LIMIT @max_rows;

-- name: NoticePlace :one
SELECT worker, until FROM notice_place WHERE id = 1;

-- name: TakeNoticePlace :execrows
UPDATE notice_place SET worker = @worker, until = @until
WHERE id = 1 AND notice_place.worker = @was AND notice_place.until = @was_until;

-- name: LockLiveSubscriptions :many
SELECT * FROM subscriptions WHERE project = @project AND state < 3 ORDER BY created_at, id LIMIT @max_rows FOR UPDATE;

-- name: EraseNotices :exec
DELETE FROM notices WHERE subscription_id IN (SELECT s.id FROM subscriptions AS s WHERE s.project = @project);

-- name: EraseSubscriptions :execrows
DELETE FROM subscriptions WHERE project = @project;
