-- meta

-- name: GetMeta :one
SELECT * FROM meta WHERE id = 1;

-- name: CreateMeta :exec
INSERT INTO meta (id, store_id, created_at, file_identity, namespace) VALUES (1, ?, ?, ?, ?)
ON CONFLICT (id) DO NOTHING;

-- name: SetArmed :exec
UPDATE meta SET armed_before = 1 WHERE id = 1;

-- name: SetOpened :exec
UPDATE meta SET file_identity = ?, generation = ?, quarantined = ?, incarnation = ? WHERE id = 1;

-- name: LastTurn :one
SELECT CAST(coalesce(max(served_turn), 0) AS INTEGER) FROM connection_ready;

-- name: EndClaimLeases :exec
UPDATE job_state SET next_at = @now WHERE state = 2 AND next_at > @now;

-- name: EndLookLeases :exec
UPDATE job_state SET next_at = @now, claim_token = NULL
WHERE state IN (4, 5) AND claim_token IS NOT NULL AND next_at > @now;

-- jobs

-- name: InsertKey :execrows
-- No row when the key is bound.
INSERT INTO job_keys (digest, job_id) VALUES (?, ?)
ON CONFLICT (digest) DO NOTHING;

-- name: InsertJob :exec
INSERT INTO jobs (
    id, project, idem_key, connection_id, hold_key, payload_kind, start_window,
    retry, attempt_timeout, cool_down, skip_if_present, delivery, own_effect_key,
    labels, time_zone, reply_to, schedule_id, trace, fingerprint, created_at, payload
) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?);

-- name: InsertState :exec
INSERT OR FAIL INTO job_state (
    job_id, project, connection_id, hold_key, state, listed, version,
    schedule_time, unasked, start_deadline, next_at, class, waits_for, predecessor_end, wait_window, created_at, updated_at,
    state_since, history
) VALUES (?, ?, ?, ?, 1, 1, 1, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?);

-- name: SetState :execrows
-- Every change of a job except claims, arms and leases, with the result of its newest
-- attempt; 0: no change of it. Every 32 events begin a new history, here and below. These
-- statements call no function, for the reason that the schema states.
UPDATE OR FAIL job_state SET
    state = @state, version = @version, round = @round, failures = @failures,
    listed = CASE WHEN @state = 2 OR @state = 3 THEN listed ELSE @state END,
    state_since = CASE WHEN state = @state THEN state_since ELSE @updated_at END,
    claims = @claims, looks = @looks, negatives = @negatives, misses = @misses,
    hold_key = @hold_key, schedule_time = @schedule_time, unasked = @unasked,
    start_deadline = @start_deadline, keep_trying = @keep_trying, next_at = @next_at, claim_token = @claim_token,
    cancel_asked_at = @cancel_asked_at, blocked = @blocked,
    error_kind = @error_kind, error_message = @error_message,
    error_status = @error_status, error_at = @error_at,
    resolution_id = CASE CAST(@resolution AS INTEGER) WHEN 0 THEN NULL ELSE CAST(@resolution AS INTEGER) END,
    effect_attempt = CASE CAST(@effect_attempt AS INTEGER) WHEN 0 THEN NULL ELSE CAST(@effect_attempt AS INTEGER) END,
    updated_at = @updated_at, ended_at = @ended_at,
    result = CASE CAST(@result AS INTEGER) WHEN 0 THEN result ELSE CAST(@result AS INTEGER) END,
    attempt_ended_at = CASE CAST(@result AS INTEGER) WHEN 0 THEN attempt_ended_at ELSE coalesce(attempt_ended_at, @updated_at) END,
    kind = CASE WHEN CAST(@settles AS BOOLEAN) THEN CAST(@kind AS INTEGER) ELSE kind END,
    message = CASE WHEN CAST(@settles AS BOOLEAN) THEN CAST(@message AS TEXT) ELSE message END,
    http_status = CASE WHEN CAST(@settles AS BOOLEAN) THEN CAST(@http_status AS INTEGER) ELSE http_status END,
    bytes_written = CASE WHEN CAST(@bytes_written AS INTEGER) > bytes_written THEN CAST(@bytes_written AS INTEGER) ELSE bytes_written END,
    peer_ended = CASE WHEN CAST(@settles AS BOOLEAN) THEN CAST(@peer_ended AS BOOLEAN) ELSE peer_ended END,
    handle = CASE CAST(@handle AS TEXT) WHEN '' THEN handle ELSE CAST(@handle AS TEXT) END, answer = coalesce(@answer, answer),
    frozen = CASE WHEN @state = 8 THEN NULL ELSE frozen END,
    history = CAST(CASE WHEN version / 32 <> (version + 1) / 32 THEN x'01' ELSE history END || CAST(@history AS BLOB) AS BLOB)
WHERE job_id = @job_id AND version = @version - 1;

-- name: Succeed :execrows
-- SetState for a success of the newest attempt, without any other data, if that attempt had
-- no outcome.
UPDATE OR FAIL job_state SET
    state = 8, listed = 8, version = version + 1, next_at = NULL, updated_at = @now, ended_at = @now,
    effect_attempt = @effect_attempt, state_since = @now, result = 1, message = @message, http_status = @http_status,
    bytes_written = @bytes_written, answer = @answer, attempt_ended_at = @now, frozen = NULL,
    history = CAST(CASE WHEN version / 32 <> (version + 1) / 32 THEN x'01' ELSE history END || CAST(@history AS BLOB) AS BLOB)
WHERE job_id = @job_id AND version = @version AND state = 3 AND result = 0;

-- name: SetStart :exec
-- The parts of a request that PostgreSQL has in job_state.
UPDATE jobs SET hold_key = @hold_key, start_window = @start_window WHERE id = @id;

-- replies

-- name: AnyWaiting :one
SELECT waits_for FROM job_state WHERE waits_for IS NOT NULL LIMIT 1;

-- name: Predecessor :one
SELECT s.project, s.state, (SELECT count(*) FROM job_state AS w WHERE w.waits_for = s.job_id) AS waiting
FROM job_state AS s WHERE s.job_id = ?;

-- name: WaitingJobs :many
-- The replies that wait for a job, ended or not, with what determines the end of their start
-- windows.
SELECT s.job_id, s.connection_id, s.hold_key, s.state, s.schedule_time, s.start_deadline, s.next_at, j.start_window
FROM job_state AS s JOIN jobs AS j ON j.id = s.job_id WHERE s.waits_for = ?;

-- name: SetPredecessorEnd :exec
-- No change of the replies: no version, no event.
UPDATE job_state SET predecessor_end = @predecessor_end WHERE waits_for = @waits_for;

-- leases

-- name: RunnableRows :many
-- Without those of connections and projects that the worker has no room for.
SELECT r.connection_id, r.hold_key FROM connection_ready AS r
WHERE r.runnable_at <= @now
    AND r.connection_id NOT IN (SELECT unhex(value) FROM json_each(@connections))
    AND (CAST(@projects AS TEXT) = '[]' OR NOT EXISTS (
        SELECT 1 FROM connections AS c WHERE c.id = r.connection_id AND c.project IN (SELECT value FROM json_each(@projects))
    ))
ORDER BY r.runnable_at, r.served_turn LIMIT @max_rows;

-- name: ClaimJob :execrows
UPDATE OR FAIL job_state SET
    state = 2, version = version + 1, claim_token = @claim_token, claimed_at = @now,
    worker = @worker, next_at = @lease_end, blocked = '', updated_at = @now, state_since = @now,
    history = CAST(CASE WHEN version / 32 <> (version + 1) / 32 THEN x'01' ELSE history END || CAST(@history AS BLOB) AS BLOB)
WHERE job_id = @job_id AND version = @version AND state IN (1, 6) AND waits_for IS NULL
    AND next_at <= @now AND start_deadline > @now;

-- name: InFlight :many
-- The connection of every job under way.
SELECT connection_id FROM job_state WHERE state IN (2, 3);

-- name: RenewLease :execrows
UPDATE OR FAIL job_state SET next_at = @lease_end
WHERE job_id = @job_id AND claim_token = @claim_token AND state IN (2, 4, 5) AND next_at > @now;

-- runnable rows

-- name: MakeRunnable :exec
INSERT INTO connection_ready (connection_id, hold_key, next_at, paused, paced_until)
VALUES (@connection_id, @hold_key, @next_at,
    (SELECT paused_at IS NOT NULL FROM connections WHERE id = @connection_id), 0)
ON CONFLICT (connection_id, hold_key) DO UPDATE SET next_at = excluded.next_at
WHERE connection_ready.next_at IS NULL OR connection_ready.next_at > excluded.next_at;

-- name: GetRunnable :one
SELECT * FROM connection_ready WHERE connection_id = ? AND hold_key = ?;

-- name: Served :exec
-- The row's remaining jobs are due at the earliest of them; NULL when none is left.
UPDATE connection_ready SET
    next_at = (
        SELECT s.next_at FROM job_state AS s
        WHERE s.connection_id = @connection_id AND s.hold_key = @hold_key
            AND s.state IN (1, 6) AND s.waits_for IS NULL
        ORDER BY s.next_at LIMIT 1
    ),
    served_at = @now, served_turn = @turn
WHERE connection_ready.connection_id = @connection_id AND connection_ready.hold_key = @hold_key;

-- name: Saturate :exec
UPDATE connection_ready SET saturated = 1 WHERE connection_id = ? AND saturated = 0;

-- name: Unsaturate :execrows
UPDATE connection_ready SET saturated = 0 WHERE connection_id = ? AND saturated = 1;

-- name: Pace :exec
UPDATE connection_ready SET paced_until = @paced_until WHERE connection_id = @connection_id AND paced_until < @paced_until;

-- name: SetAside :exec
UPDATE connection_ready SET stopped_until = max(stopped_until, @stopped_until)
WHERE connection_id = @connection_id AND hold_key = @hold_key;

-- name: SetBucket :exec
UPDATE connections SET bucket_at = ? WHERE id = ?;

-- attempts

-- name: ArmJob :execrows
-- As store/rules judged. The triggers refuse what must never be written. A claim that arms makes
-- both steps in one version of the row, each with its event; the lease is never visible.
UPDATE OR FAIL job_state SET
    state = 3, version = @version, attempt = attempt + 1, class = @class,
    next_at = @fence, claim_token = NULL, claimed_at = @claimed_at, worker = @worker, claims = 0, blocked = '', updated_at = @now, state_since = @now,
    first_armed_at = coalesce(first_armed_at, @now), start_deadline = @start_deadline, keep_trying = @keep_trying,
    armed_round = round, arm_token = @arm_token, armed_by = @worker, armed_claimed_at = @claimed_at, armed_at = @now,
    send_deadline = @send_deadline, answer_deadline = @answer_deadline, fence_at = @fence, effect_key = @effect_key,
    request_digest = @request_digest, credential_version = @credential_version, account_identity = @account_identity,
    watermark = @watermark, handle = @handle, span = @span, result = 0, kind = 0, message = '', http_status = 0,
    bytes_written = 0, peer_ended = 0, attempt_ended_at = NULL, answer = NULL, frozen = @frozen,
    history = CAST(CASE WHEN version / 32 <> @version / 32 THEN x'01' ELSE history END || CAST(@history AS BLOB) AS BLOB)
WHERE job_id = @job_id AND version = @was AND claim_token IS @claim_token AND state = @state;

-- name: AttemptViews :many
SELECT number, round, armed_at, fence_at, peer_ended, handle, result, effect_key, request_digest FROM attempts
WHERE job_id = ? ORDER BY number;

-- name: AnswerBytes :one
-- Of the newest attempt or an earlier one.
SELECT CAST(coalesce((
    SELECT length(s.answer) FROM job_state AS s WHERE s.job_id = @job_id AND s.attempt = @number
), (
    SELECT length(a.answer) FROM attempts AS a WHERE a.job_id = @job_id AND a.number = @number
), 0) AS INTEGER);

-- name: GateOwner :one
SELECT job_id FROM open_intents WHERE account = ? AND fingerprint = ?;

-- name: LastArm :one
SELECT job_id, armed_at FROM cool_downs WHERE owner = ?;

-- name: SetLastArm :exec
INSERT INTO cool_downs (owner, job_id, armed_at) VALUES (?, ?, ?)
ON CONFLICT (owner) DO UPDATE SET job_id = excluded.job_id, armed_at = excluded.armed_at;

-- name: TakeGate :exec
INSERT INTO open_intents (account, fingerprint, job_id, attempt) VALUES (?, ?, ?, ?)
ON CONFLICT (account, fingerprint) DO UPDATE SET attempt = excluded.attempt
WHERE open_intents.job_id = excluded.job_id;

-- name: CountContentArm :exec
INSERT INTO content_arms (bucket, arms) VALUES (?, 1)
ON CONFLICT (bucket) DO UPDATE SET arms = content_arms.arms + 1;

-- name: ReleaseGate :exec
DELETE FROM open_intents WHERE job_id = ?;

-- effects, looks, rulings

-- name: PutEffect :exec
INSERT INTO effects (job_id, account, namespace, external_id, external_url, owns_id, attempt, round, proof, at, shared_with)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (job_id) DO UPDATE SET
    account = excluded.account, namespace = excluded.namespace, external_id = excluded.external_id,
    external_url = excluded.external_url, owns_id = excluded.owns_id, attempt = excluded.attempt,
    round = excluded.round, proof = excluded.proof, at = excluded.at, shared_with = excluded.shared_with,
    told = 0;

-- events

-- name: InsertPage :exec
INSERT INTO event_pages (position, first, project, at, events, starts, body) VALUES (?, ?, ?, ?, ?, ?, ?);

-- name: InsertText :exec
INSERT INTO event_texts (job_id, sequence, position, reason, detail) VALUES (?, ?, ?, ?, ?);

-- name: PageSizes :many
-- The next pages of a project.
SELECT position, events FROM event_pages WHERE project = @project AND position > @after ORDER BY position LIMIT @max_rows;

-- name: ProjectPages :many
SELECT position, body FROM event_pages
WHERE project = @project AND position > @after AND position <= @up_to ORDER BY position;

-- name: PagesAfter :many
-- Pages of all projects.
SELECT position, project, body FROM event_pages WHERE position > @after ORDER BY position LIMIT @max_rows;

-- name: LastPosition :one
SELECT CAST(coalesce((SELECT max(position) FROM event_pages), 0) AS INTEGER);

-- connections

-- name: BucketOf :one
SELECT bucket_at FROM connections WHERE id = @id;

-- name: InsertConnectionLabels :exec
INSERT INTO connection_labels (project, name, value, created_at, connection_id)
SELECT c.project, l.key, l.value, c.created_at, c.id FROM connections AS c, json_each(c.labels) AS l WHERE c.id = @id;

-- name: DropConnectionLabels :exec
DELETE FROM connection_labels
WHERE (project, name, value, created_at, connection_id) IN (
    SELECT c.project, l.key, l.value, c.created_at, c.id FROM connections AS c, json_each(c.labels) AS l WHERE c.id = @id);
