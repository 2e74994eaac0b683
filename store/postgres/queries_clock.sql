-- The clock: what servers believe, and what a step changes (see store.ClockStep). The
-- times of a step are: "old" before it, "now" after it, and "by" between them. "over" is the
-- earlier of old and now: a bound that ends later than that moves by "by". So one that was
-- over stays over, and a running one keeps what is left of it.

-- name: GetClock :one
SELECT clock_timestamp()::timestamptz AS now, m.clock_steps, c.at, EXISTS (SELECT 1 FROM clock_doubts) AS doubted
FROM clock AS c CROSS JOIN meta AS m WHERE c.id = 1 AND m.id = 1;

-- name: BelieveClock :exec
-- A server that believes the clock ends the suspicion of the others too.
WITH known AS (SELECT 1 FROM meta WHERE id = 1 AND clock_steps = @steps::bigint),
ended AS (DELETE FROM clock_doubts WHERE EXISTS (SELECT 1 FROM known))
UPDATE clock SET at = @now::timestamptz WHERE id = 1 AND at <> @now::timestamptz AND EXISTS (SELECT 1 FROM known);

-- name: DoubtClock :exec
INSERT INTO clock_doubts (server, beats) SELECT @server::text, 1 FROM meta WHERE id = 1 AND clock_steps = @steps::bigint
ON CONFLICT (server) DO UPDATE SET beats = clock_doubts.beats + 1;

-- name: ClockDoubts :many
SELECT server, beats FROM clock_doubts ORDER BY server LIMIT 1000;

-- name: EndDoubt :execrows
-- Of a server that has ended, unless it has beaten meanwhile.
DELETE FROM clock_doubts WHERE server = @server AND beats = @beats;

-- name: EndOwnDoubt :exec
DELETE FROM clock_doubts WHERE server = @server;

-- name: EndDoubts :exec
DELETE FROM clock_doubts;

-- name: BeginStep :execrows
UPDATE meta SET clock_steps = clock_steps + 1, clock_moved = clock_moved + @by::bigint WHERE id = 1 AND clock_steps = @steps::bigint;

-- name: EndStep :exec
UPDATE clock SET at = @now::timestamptz WHERE id = 1;

-- name: AllowStep :exec
-- Lets this transaction move fences back; see the triggers.
SELECT set_config('fireonce.stepping', 'on', true);

-- name: StepAttempts :exec
-- Of jobs that have not ended, and of those that a client's retry would restart.
UPDATE attempts AS a SET
    armed_at = a.armed_at + @by::interval, send_deadline = a.send_deadline + @by::interval,
    answer_deadline = a.answer_deadline + @by::interval, fence_at = a.fence_at + @by::interval
WHERE a.armed_at <> @unknown::timestamptz AND (
    a.fence_at > @over::timestamptz
    OR EXISTS (SELECT 1 FROM job_state AS s WHERE s.job_id = a.job_id AND s.state IN (2, 3, 4, 5, 6, 7))
);

-- name: StepNewest :exec
-- StepAttempts for the newest attempts.
UPDATE job_state SET
    armed_at = CASE armed_at WHEN @unknown::timestamptz THEN armed_at ELSE armed_at + @by::interval END,
    round_armed_at = CASE round_armed_at WHEN @unknown::timestamptz THEN round_armed_at ELSE round_armed_at + @by::interval END,
    send_deadline = send_deadline + @by::interval, answer_deadline = answer_deadline + @by::interval,
    fence_at = fence_at + @by::interval
WHERE attempt > 0 AND armed_at <> @unknown::timestamptz AND (fence_at > @over::timestamptz OR state IN (2, 3, 4, 5, 6, 7));

-- name: ForgetKeyAges :exec
UPDATE attempts AS a SET armed_at = @unknown::timestamptz
FROM job_state AS s WHERE s.job_id = a.job_id AND s.state IN (2, 3, 5, 6, 7) AND s.class = @keyed::smallint;

-- name: ForgetNewestKeyAges :exec
UPDATE job_state SET armed_at = @unknown::timestamptz, round_armed_at = @unknown::timestamptz
WHERE attempt > 0 AND state IN (2, 3, 5, 6, 7) AND class = @keyed::smallint;

-- name: StepLeases :exec
-- Leases, fences, looks and polls. A look under way proves nothing after the step.
UPDATE job_state SET
    next_at = next_at + @by::interval, claim_token = CASE WHEN state IN (4, 5) THEN NULL ELSE claim_token END
WHERE state IN (2, 3, 4, 5);

-- name: StepUnasked :exec
-- Of jobs that start as soon as possible. Their schedule_time stays: it is what every answer
-- to their request has.
UPDATE job_state SET
    start_deadline = start_deadline + @by::interval,
    next_at = CASE WHEN state IN (1, 6) THEN next_at + @by::interval ELSE next_at END
WHERE unasked AND state IN (1, 2, 3, 4, 5, 6, 7);

-- name: StepWaits :exec
-- Waits that a job chooses by itself. A time that a client asked for is the beginning of its
-- start window, or of the wait of a reply, which has no other waits meanwhile.
-- A job that runs before its time, because a person said so, stays so.
UPDATE job_state SET next_at = CASE WHEN next_at < schedule_time THEN next_at + @by::interval
    ELSE greatest(schedule_time, next_at + @by::interval) END
WHERE state IN (1, 6) AND waits_for IS NULL AND NOT unasked AND next_at > @over::timestamptz AND start_deadline < 'infinity'
    AND start_deadline - next_at
        <> CASE start_window WHEN 0 THEN @default_window::bigint ELSE start_window END * interval '1 microsecond';

-- name: StepWindows :exec
-- Windows that were open while work was suspended.
UPDATE job_state SET start_deadline = start_deadline + @stood::interval
WHERE state IN (1, 2, 6) AND (schedule_time <= @now::timestamptz OR unasked)
    AND start_deadline > @since::timestamptz AND start_deadline < 'infinity';

-- name: StepEnds :exec
UPDATE job_state SET ended_at = @now::timestamptz WHERE ended_at > @now::timestamptz;

-- name: StepHolds :exec
UPDATE connection_ready AS r SET
    rate_limited_until = CASE WHEN r.rate_limited_until > @over::timestamptz THEN r.rate_limited_until + @by::interval ELSE r.rate_limited_until END,
    paced_until = CASE WHEN r.paced_until > @over::timestamptz THEN r.paced_until + @by::interval ELSE r.paced_until END,
    served_at = least(r.served_at, @now::timestamptz),
    next_at = (
        SELECT s.next_at FROM job_state AS s
        WHERE s.connection_id = r.connection_id AND s.hold_key = r.hold_key
            AND s.state IN (1, 6) AND s.waits_for IS NULL
        ORDER BY s.next_at LIMIT 1
    );

-- name: StepBuckets :exec
UPDATE connection_claims SET bucket_at = bucket_at + @by_micros::bigint WHERE bucket_at > 0;

-- name: StepCoolDowns :exec
UPDATE cool_downs SET armed_at = armed_at + @by::interval WHERE armed_at > 'epoch';

-- name: StepRenewals :exec
-- A lease or a rest, and how long ago the last leases began.
UPDATE oauth_renewals SET
    until = CASE WHEN until > @over::timestamptz THEN until + @by::interval ELSE until END,
    begun_at = begun_at + @by::interval, before_at = before_at + @by::interval;

-- name: StepLogins :exec
UPDATE oauth_logins SET expires_at = expires_at + @by::interval WHERE expires_at > @over::timestamptz;

-- name: StepSchedules :exec
-- After a step back: a decision that was to be made again within store.BufferedLook cannot be
-- told from the next firing. So all that were due soon are made now, which changes nothing
-- where nothing is due.
-- A refused decision is made again now, too.
UPDATE schedules SET next_at = CASE WHEN next_at > @now::timestamptz AND next_at <= @soon::timestamptz
    THEN @now::timestamptz ELSE next_at END, postponed_until = NULL
WHERE next_at > @now::timestamptz AND next_at <= @soon::timestamptz OR postponed_until IS NOT NULL;

-- name: StepFirstArms :exec
-- What happened before a step back did not happen after it.
UPDATE job_state SET first_armed_at = @now::timestamptz WHERE first_armed_at > @now::timestamptz;

-- name: StepPauses :exec
UPDATE connections SET paused_at = @now::timestamptz WHERE paused_at > @now::timestamptz;

-- name: StepUses :exec
UPDATE api_keys SET last_used_at = @now::timestamptz WHERE last_used_at > @now::timestamptz;

-- name: StepRetention :exec
UPDATE retention SET lease_until = lease_until + @by::interval WHERE lease_until > @over::timestamptz;

-- name: StepRoll :exec
UPDATE rollup_place SET lease_until = lease_until + @by::interval WHERE lease_until > @over::timestamptz;
