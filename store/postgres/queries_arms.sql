-- Arms. Arrays are as in queries_claim.sql.

-- name: Holds :many
-- The jobs whose hold key is or was held, and those with a cool-down. A job without a
-- schedule has no cool-down of its own, and is not read.
SELECT s.job_id, coalesce(r.paused OR r.auth_hold_at IS NOT NULL, false)::boolean AS held,
    coalesce(r.rate_limited_until, 'epoch')::timestamptz AS rate_limited_until,
    c.cool_down AS connection_cool_down, coalesce(j.cool_down, 0)::bigint AS cool_down
FROM job_state AS s
JOIN connections AS c ON c.id = s.connection_id
LEFT JOIN connection_ready AS r ON r.connection_id = s.connection_id AND r.hold_key = s.hold_key
LEFT JOIN jobs AS j ON s.schedule_id IS NOT NULL AND j.id = s.job_id
WHERE s.job_id = ANY (@ids::uuid[])
    AND (r.paused OR r.auth_hold_at IS NOT NULL OR r.rate_limited_until > 'epoch' OR c.cool_down > 0 OR j.cool_down > 0);

-- name: LockCoolDowns :many
-- The last arms of owners of a cool-down. Each is locked, even without an arm.
WITH u AS (SELECT unnest(@owners::uuid[]) AS owner)
INSERT INTO cool_downs (owner, job_id, armed_at)
SELECT u.owner, '00000000-0000-0000-0000-000000000000'::uuid, 'epoch' FROM u ORDER BY u.owner
ON CONFLICT (owner) DO UPDATE SET owner = excluded.owner
RETURNING owner, job_id, armed_at;

-- name: SetCoolDowns :exec
-- On rows that are locked.
UPDATE cool_downs AS c SET job_id = u.job_id, armed_at = @now
FROM (SELECT unnest(@owners::uuid[]) AS owner, unnest(@jobs::uuid[]) AS job_id) AS u
WHERE c.owner = u.owner;

-- name: HeldRows :many
-- The runnable rows whose hold key is or was held.
WITH u AS (SELECT unnest(@connections::uuid[]) AS connection_id, unnest(@hold_keys::text[]) AS hold_key)
SELECT r.connection_id, r.hold_key, (r.paused OR r.auth_hold_at IS NOT NULL)::boolean AS held, r.rate_limited_until
FROM u JOIN connection_ready AS r ON r.connection_id = u.connection_id AND r.hold_key = u.hold_key
WHERE r.paused OR r.auth_hold_at IS NOT NULL OR r.rate_limited_until > 'epoch';

-- name: LockContentArms :many
-- It makes the rows that are missing, because only a row that exists can be locked.
INSERT INTO content_arms AS c (bucket, arms)
SELECT u.bucket, 0 FROM (SELECT unnest(@buckets::bigint[]) AS bucket) AS u ORDER BY u.bucket
ON CONFLICT (bucket) DO UPDATE SET arms = c.arms
RETURNING bucket, arms;

-- name: CountContentArms :exec
-- On rows that are locked. Contents of one bucket count once.
UPDATE content_arms SET arms = arms + 1 WHERE bucket = ANY (@buckets::bigint[]);

-- name: TakeGates :many
-- A gate that the job has already is included; one of another job is not. New gates come
-- first, because a transaction may wait for them while others wait for the included ones.
WITH u AS (
    SELECT unnest(@accounts::text[]) AS account, unnest(@fingerprints::bytea[]) AS fingerprint,
        unnest(@jobs::uuid[]) AS job_id, unnest(@attempts::bigint[]) AS attempt
),
taken AS (
    INSERT INTO open_intents (account, fingerprint, job_id, attempt)
    SELECT u.account, u.fingerprint, u.job_id, u.attempt FROM u
    WHERE NOT EXISTS (
        SELECT 1 FROM open_intents AS o
        WHERE o.job_id = u.job_id AND o.account = u.account AND o.fingerprint = u.fingerprint
    )
    ORDER BY u.account, u.fingerprint
    ON CONFLICT (account, fingerprint) DO NOTHING
    RETURNING job_id
),
kept AS (
    UPDATE open_intents AS o SET attempt = u.attempt FROM u
    WHERE o.job_id = u.job_id AND o.account = u.account AND o.fingerprint = u.fingerprint
        AND (SELECT count(*) FROM taken) >= 0
    RETURNING o.job_id
)
SELECT job_id FROM kept UNION ALL SELECT job_id FROM taken;

-- name: GateOwners :many
WITH u AS (SELECT unnest(@accounts::text[]) AS account, unnest(@fingerprints::bytea[]) AS fingerprint)
SELECT o.account, o.fingerprint, o.job_id
FROM u JOIN open_intents AS o ON o.account = u.account AND o.fingerprint = u.fingerprint;

-- name: ArmJobs :exec
-- As store/rules judged. The triggers refuse what must never be written; the database moves
-- an attempt that is followed to attempts. A claim that arms makes both steps in one version of
-- the row, with the history of both; the lease is never visible to another transaction. The state is named so that the planner considers
-- no index of states, which would read all jobs under way for the few of a batch.
WITH u AS (
    SELECT unnest(@jobs::uuid[]) AS job_id, unnest(@versions::bigint[]) AS version,
        unnest(@positions::bigint[]) AS position, nullif(unnest(@claims::uuid[]), '00000000-0000-0000-0000-000000000000'::uuid) AS claim,
        unnest(@classes::smallint[]) AS class, unnest(@fences::timestamptz[]) AS fence,
        unnest(@workers::text[]) AS worker, unnest(@rearms::boolean[]) AS rearm,
        unnest(@tokens::uuid[]) AS arm_token, unnest(@send_deadlines::timestamptz[]) AS send_deadline,
        unnest(@answer_deadlines::timestamptz[]) AS answer_deadline,
        unnest(@effect_keys::text[]) AS effect_key, unnest(@digests::bytea[]) AS request_digest,
        unnest(@credential_versions::bigint[]) AS credential_version,
        unnest(@account_identities::text[]) AS account_identity, unnest(@watermarks::text[]) AS watermark,
        unnest(@handles::text[]) AS handle, unnest(@frozens::bytea[]) AS frozen, unnest(@spans::bytea[]) AS span,
        unnest(@histories::bytea[]) AS history,
        unnest(@start_deadlines::timestamptz[]) AS start_deadline, unnest(@keep_tryings::bigint[]) AS keep_trying
),
armed AS (
    UPDATE job_state AS s SET
        state = 3, version = s.version + @steps::bigint, position = u.position, attempt = s.attempt + 1,
        history = with_event(s.history, u.history), state_since = @now,
        class = u.class, start_deadline = u.start_deadline, keep_trying = u.keep_trying,
        next_at = u.fence, claim_token = NULL,
        claimed_at = CASE @steps::bigint WHEN 2 THEN @now ELSE s.claimed_at END, worker = u.worker, claims = 0, blocked = '', updated_at = @now,
        armed_round = s.round, arm_token = u.arm_token, armed_by = u.worker, attempt_claimed_at = CASE @steps::bigint WHEN 2 THEN @now ELSE s.claimed_at END,
        armed_at = @now, send_deadline = u.send_deadline, answer_deadline = u.answer_deadline, fence_at = u.fence,
        effect_key = u.effect_key, request_digest = u.request_digest, credential_version = u.credential_version,
        account_identity = u.account_identity, watermark = u.watermark, handle = u.handle, span = u.span, frozen = u.frozen,
        result = 0, failure_kind = 0, message = '', http_status = 0, bytes_written = 0, peer_ended = false, answer = NULL,
        attempt_ended_at = NULL,
        round_armed_at = CASE WHEN s.armed_round = s.round THEN s.round_armed_at ELSE @now END,
        first_armed_at = coalesce(s.first_armed_at, @now)
    FROM u WHERE s.job_id = u.job_id AND s.version = u.version
        AND s.claim_token IS NOT DISTINCT FROM u.claim AND (u.claim IS NOT NULL OR @steps::bigint = 2)
        AND s.state = CASE WHEN @steps::bigint = 2 THEN s.state WHEN u.rearm THEN 5 ELSE 2 END
    RETURNING s.job_id
)
SELECT all_written(count(job_id), cardinality(@jobs::uuid[])) FROM armed;

-- name: NoteArmed :exec
UPDATE meta SET armed_before = true WHERE id = 1 AND NOT armed_before;
