-- The clock: what is believed, and what a step changes (see store.ClockStep). The times
-- of a step are: "old" before it, "now" after it, and "by" between them. "over" is the
-- earlier of old and now: a bound that ends later than that moves by "by". So one that was
-- over stays over, and a running one keeps what is left of it.

-- name: GetClock :one
SELECT * FROM clock WHERE id = 1;

-- name: SaveClock :exec
INSERT INTO clock (id, boot_id, at, boot, since, off, floor) VALUES (1, ?, ?, ?, ?, ?, ?)
ON CONFLICT (id) DO UPDATE SET
    boot_id = excluded.boot_id, at = excluded.at, boot = excluded.boot, since = excluded.since, off = excluded.off, floor = excluded.floor;

-- name: BeginStep :exec
UPDATE clock SET stepping = 1, steps = steps + 1, moved = moved + CAST(@by AS INTEGER) WHERE id = 1;

-- name: EndStep :exec
UPDATE clock SET stepping = 0 WHERE id = 1;

-- name: StepAttempts :exec
-- Of jobs that have not ended, and of those that a client's retry would restart.
UPDATE job_state SET
    armed_at = armed_at + CAST(@by AS INTEGER), send_deadline = send_deadline + CAST(@by AS INTEGER),
    answer_deadline = answer_deadline + CAST(@by AS INTEGER), fence_at = fence_at + CAST(@by AS INTEGER)
WHERE attempt > 0 AND armed_at <> CAST(@unknown AS INTEGER) AND (fence_at > CAST(@over AS INTEGER) OR state BETWEEN 2 AND 7);

-- name: StepEarlierAttempts :exec
UPDATE attempts SET
    armed_at = armed_at + CAST(@by AS INTEGER), send_deadline = send_deadline + CAST(@by AS INTEGER),
    answer_deadline = answer_deadline + CAST(@by AS INTEGER), fence_at = fence_at + CAST(@by AS INTEGER)
WHERE armed_at <> CAST(@unknown AS INTEGER)
    AND (fence_at > CAST(@over AS INTEGER) OR job_id IN (SELECT s.job_id FROM job_state AS s WHERE s.state BETWEEN 2 AND 7));

-- name: ForgetKeyAges :exec
UPDATE job_state SET armed_at = CAST(@unknown AS INTEGER)
WHERE attempt > 0 AND state IN (2, 3, 5, 6, 7) AND class = CAST(@keyed AS INTEGER);

-- name: ForgetEarlierKeyAges :exec
UPDATE attempts SET armed_at = CAST(@unknown AS INTEGER)
WHERE job_id IN (SELECT s.job_id FROM job_state AS s WHERE s.state IN (2, 3, 5, 6, 7) AND s.class = CAST(@keyed AS INTEGER));

-- name: StepLeases :exec
-- Leases, fences, looks and polls. A look under way proves nothing after the step.
UPDATE job_state SET
    next_at = next_at + CAST(@by AS INTEGER), claim_token = CASE WHEN state IN (4, 5) THEN NULL ELSE claim_token END
WHERE state IN (2, 3, 4, 5);

-- name: StepUnasked :exec
-- Of jobs that start as soon as possible. Their schedule_time stays: it is what every answer
-- to their request has.
UPDATE job_state SET
    start_deadline = start_deadline + CAST(@by AS INTEGER),
    next_at = CASE WHEN state IN (1, 6) THEN next_at + CAST(@by AS INTEGER) ELSE next_at END
WHERE unasked = 1 AND state BETWEEN 1 AND 7;

-- name: StepWaits :exec
-- Waits that a job chooses by itself. A time that a client asked for is the beginning of its
-- start window, or of the wait of a reply, which has no other waits meanwhile.
-- A job that runs before its time, because a person said so, stays so.
UPDATE job_state SET next_at = CASE WHEN next_at < schedule_time THEN next_at + CAST(@by AS INTEGER)
    ELSE max(schedule_time, next_at + CAST(@by AS INTEGER)) END
WHERE state IN (1, 6) AND waits_for IS NULL AND unasked = 0 AND next_at > CAST(@over AS INTEGER)
    AND start_deadline - next_at <> (
        SELECT CASE j.start_window WHEN 0 THEN CAST(@default_window AS INTEGER) ELSE j.start_window END
        FROM jobs AS j WHERE j.id = job_state.job_id
    );

-- name: StepWindows :exec
-- Windows that were open while work was suspended.
UPDATE job_state SET start_deadline = start_deadline + CAST(@stood AS INTEGER)
WHERE state IN (1, 2, 6) AND (schedule_time <= CAST(@now AS INTEGER) OR unasked = 1)
    AND start_deadline > CAST(@now AS INTEGER) - CAST(@stood AS INTEGER);

-- name: StepEnds :exec
UPDATE job_state SET ended_at = CAST(@now AS INTEGER) WHERE ended_at > CAST(@now AS INTEGER);

-- name: StepHolds :exec
UPDATE connection_ready SET
    rate_limited_until = CASE WHEN rate_limited_until > CAST(@over AS INTEGER) THEN rate_limited_until + CAST(@by AS INTEGER) ELSE rate_limited_until END,
    paced_until = CASE WHEN paced_until > CAST(@over AS INTEGER) THEN paced_until + CAST(@by AS INTEGER) ELSE paced_until END,
    served_at = min(served_at, CAST(@now AS INTEGER)),
    next_at = (
        SELECT min(s.next_at) FROM job_state AS s
        WHERE s.connection_id = connection_ready.connection_id AND s.hold_key = connection_ready.hold_key
            AND s.state IN (1, 6) AND s.waits_for IS NULL
    );

-- name: StepBuckets :exec
UPDATE connections SET bucket_at = bucket_at + CAST(@by AS INTEGER) WHERE bucket_at > 0;

-- name: StepCoolDowns :exec
UPDATE cool_downs SET armed_at = armed_at + CAST(@by AS INTEGER);

-- name: StepRenewals :exec
-- A lease or a rest, and how long ago the last leases began.
UPDATE oauth_renewals SET
    until = CASE WHEN until > CAST(@over AS INTEGER) THEN until + CAST(@by AS INTEGER) ELSE until END,
    begun_at = begun_at + CAST(@by AS INTEGER), before_at = before_at + CAST(@by AS INTEGER);

-- name: StepLogins :exec
UPDATE oauth_logins SET expires_at = expires_at + CAST(@by AS INTEGER) WHERE expires_at > CAST(@over AS INTEGER);

-- name: StepSchedules :exec
-- After a step back: a decision that was to be made again within store.BufferedLook cannot be
-- told from the next firing. So all that were due soon are made now, which changes nothing
-- where nothing is due.
-- A refused decision is made again now, too.
UPDATE schedules SET next_at = CASE WHEN next_at > CAST(@now AS INTEGER) AND next_at <= CAST(@soon AS INTEGER)
    THEN CAST(@now AS INTEGER) ELSE next_at END, postponed_until = NULL
WHERE next_at > CAST(@now AS INTEGER) AND next_at <= CAST(@soon AS INTEGER) OR postponed_until IS NOT NULL;

-- name: StepFirstArms :exec
-- What happened before a step back did not happen after it.
UPDATE job_state SET first_armed_at = CAST(@now AS INTEGER) WHERE first_armed_at > CAST(@now AS INTEGER);

-- name: StepPauses :exec
UPDATE connections SET paused_at = CAST(@now AS INTEGER) WHERE paused_at > CAST(@now AS INTEGER);

-- name: StepUses :exec
UPDATE api_keys SET last_used_at = CAST(@now AS INTEGER) WHERE last_used_at > CAST(@now AS INTEGER);
