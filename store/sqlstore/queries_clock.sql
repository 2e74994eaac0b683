-- What a step of the clock changes (see store.ClockStep). The times of a step are: "old" before
-- it, "now" after it, and "by" between them. "over" is the earlier of old and now: a bound that
-- ends later than that moves by "by". So one that was over stays over, and a running one keeps
-- what is left of it. What the engines store each in its own way has queries of their own.

-- name: StepEarlierAttempts :exec
-- Of jobs that have not ended, and of those that a client's retry would restart.
UPDATE attempts SET
    armed_at = armed_at + @by::interval, send_deadline = send_deadline + @by::interval,
    answer_deadline = answer_deadline + @by::interval, fence_at = fence_at + @by::interval
WHERE armed_at <> @unknown::timestamptz AND (
    fence_at > @over::timestamptz
    OR EXISTS (SELECT 1 FROM job_state AS s WHERE s.job_id = attempts.job_id AND s.state IN (2, 3, 4, 5, 6, 7))
);

-- name: ForgetEarlierKeyAges :exec
-- Class 1 is KEYED.
UPDATE attempts SET armed_at = @unknown::timestamptz
FROM job_state AS s WHERE s.job_id = attempts.job_id AND s.state IN (2, 3, 5, 6, 7) AND s.class = 1;

-- name: StepLeases :exec
-- Leases, fences, looks and polls. A look under way proves nothing after the step.
UPDATE job_state SET
    next_at = next_at + @by::interval, claim_token = CASE WHEN state IN (4, 5) THEN NULL ELSE claim_token END
WHERE state IN (2, 3, 4, 5);

-- name: StepUnasked :exec
-- Of jobs that start as soon as possible. Their schedule_time stays: it is what every answer
-- to their request has. No caller requested either when a job began, from which keep_trying
-- counts.
UPDATE job_state SET
    start_deadline = start_deadline + @by::interval,
    next_at = CASE WHEN unasked AND state IN (1, 6) THEN next_at + @by::interval ELSE next_at END
WHERE (unasked OR keep_trying > 0) AND state IN (1, 2, 3, 4, 5, 6, 7);

-- name: StepWindows :exec
-- Windows that were open while work was suspended.
UPDATE job_state SET start_deadline = start_deadline + @stood::interval
WHERE state IN (1, 2, 6) AND (schedule_time <= @now::timestamptz OR unasked OR keep_trying > 0) AND start_deadline > @since::timestamptz;

-- name: StepWaits :exec
-- Waits that a job chooses by itself. A time that a client asked for is the beginning of its
-- start window, or of the wait of a reply, which has no other waits meanwhile.
-- A job that runs before its time, because a person said so, stays so.
UPDATE job_state SET next_at = CASE WHEN next_at < schedule_time THEN next_at + @by::interval
    ELSE greatest(schedule_time, next_at + @by::interval) END
WHERE state IN (1, 6) AND waits_for IS NULL AND NOT unasked AND next_at > @over::timestamptz AND start_deadline < 'infinity'
    AND (keep_trying > 0 OR start_deadline - next_at <> CASE start_window /* SQLite: (SELECT j.start_window FROM jobs AS j WHERE j.id = job_state.job_id) */
        WHEN 0 THEN @default_window::bigint
        ELSE start_window /* SQLite: (SELECT j.start_window FROM jobs AS j WHERE j.id = job_state.job_id) */ END * @microsecond::interval);

-- name: StepEnds :exec
UPDATE job_state SET ended_at = @now::timestamptz WHERE ended_at > @now::timestamptz;

-- name: StepHolds :exec
UPDATE connection_ready AS r SET
    rate_limited_until = CASE WHEN r.rate_limited_until > @over::timestamptz THEN r.rate_limited_until + @by::interval ELSE r.rate_limited_until END,
    paced_until = CASE WHEN r.paced_until > @over::timestamptz THEN r.paced_until + @by::interval ELSE r.paced_until END,
    stopped_until = CASE WHEN r.stopped_until > @over::timestamptz THEN r.stopped_until + @by::interval ELSE r.stopped_until END,
    served_at = least(r.served_at, @now::timestamptz),
    next_at = (
        SELECT s.next_at FROM job_state AS s
        WHERE s.connection_id = r.connection_id AND s.hold_key = r.hold_key
            AND s.state IN (1, 6) AND s.waits_for IS NULL
        ORDER BY s.next_at LIMIT 1
    );

-- name: StepCoolDowns :exec
UPDATE cool_downs SET armed_at = armed_at + @by::interval WHERE armed_at > 'epoch';

-- name: StepRenewals :exec
-- A lease or a rest, and how long ago the last leases began.
UPDATE oauth_renewals SET
    until = CASE WHEN until > @over::timestamptz THEN until + @by::interval ELSE until END,
    begun_at = begun_at + @by::interval, before_at = before_at + @by::interval;

-- name: StepLogins :exec
UPDATE oauth_logins SET expires_at = expires_at + @by::interval WHERE expires_at > @over::timestamptz;

-- name: StepSubscriptions :exec
-- Waits, and since when notices fail. The revision shows steps in progress that they have moved.
UPDATE subscriptions SET
    next_at = next_at + @by::interval, failing_at = failing_at + @by::interval, revision = revision + 1
WHERE state < 3;

-- name: StepNoticeLease :exec
UPDATE notice_place SET until = until + @by::interval WHERE until > @over::timestamptz;

-- name: StepSchedules :exec
-- After a step back: a decision that was to be made again within store.BufferedLook cannot be
-- told from the next firing. So all that were due soon are made now, which changes nothing
-- where nothing is due. A refused decision is made again now, too.
UPDATE schedules SET next_at = CASE WHEN next_at > @now::timestamptz AND next_at <= @soon::timestamptz
    THEN @now::timestamptz ELSE next_at END, postponed_until = NULL
WHERE next_at > @now::timestamptz AND next_at <= @soon::timestamptz OR postponed_until IS NOT NULL;

-- name: StepFirstArms :exec
-- What happened before a step back did not happen after it.
UPDATE job_state SET first_armed_at = @now::timestamptz WHERE first_armed_at > @now::timestamptz;

-- name: StepPauses :exec
UPDATE connections SET paused_at = @now::timestamptz WHERE paused_at > @now::timestamptz;

-- name: StepStops :exec
UPDATE stops SET begin_at = @now::timestamptz WHERE begin_at > @now::timestamptz AND NOT planned;

-- name: StepProbes :exec
UPDATE stops SET probe_at = probe_at + @by::interval WHERE probe_at > @over::timestamptz;

-- name: StepUses :exec
UPDATE api_keys SET last_used_at = @now::timestamptz WHERE last_used_at > @now::timestamptz;
