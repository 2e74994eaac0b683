-- The clock: what is believed, and what a step changes (see store.ClockStep). The times
-- of a step are: "old" before it, "now" after it, and "by" between them.

-- name: GetClock :one
SELECT * FROM clock WHERE id = 1;

-- name: SaveClock :exec
INSERT INTO clock (id, boot_id, at, boot, since, off, floor) VALUES (1, ?, ?, ?, ?, ?, ?)
ON CONFLICT (id) DO UPDATE SET
    boot_id = excluded.boot_id, at = excluded.at, boot = excluded.boot, since = excluded.since, off = excluded.off, floor = excluded.floor;

-- name: BeginStep :exec
UPDATE clock SET stepping = 1, steps = steps + 1 WHERE id = 1;

-- name: EndStep :exec
UPDATE clock SET stepping = 0 WHERE id = 1;

-- name: StepAttempts :exec
-- Of jobs that have not ended, and of those that a client's retry would restart.
UPDATE job_state SET
    armed_at = armed_at + CAST(@by AS INTEGER), send_deadline = send_deadline + CAST(@by AS INTEGER),
    answer_deadline = answer_deadline + CAST(@by AS INTEGER), fence_at = fence_at + CAST(@by AS INTEGER)
WHERE attempt > 0 AND armed_at <> CAST(@unknown AS INTEGER) AND (fence_at > CAST(@old AS INTEGER) OR state BETWEEN 2 AND 7);

-- name: StepEarlierAttempts :exec
UPDATE attempts SET
    armed_at = armed_at + CAST(@by AS INTEGER), send_deadline = send_deadline + CAST(@by AS INTEGER),
    answer_deadline = answer_deadline + CAST(@by AS INTEGER), fence_at = fence_at + CAST(@by AS INTEGER)
WHERE armed_at <> CAST(@unknown AS INTEGER)
    AND (fence_at > CAST(@old AS INTEGER) OR job_id IN (SELECT s.job_id FROM job_state AS s WHERE s.state BETWEEN 2 AND 7));

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

-- name: StepWaits :exec
-- Waits that a job chooses by itself. A time that a client asked for is the beginning of its
-- start window, or of the wait of a reply, which has no other waits meanwhile.
UPDATE job_state SET next_at = max(schedule_time, next_at + CAST(@by AS INTEGER))
WHERE state IN (1, 6) AND waits_for IS NULL AND next_at > CAST(@old AS INTEGER)
    AND start_deadline - next_at <> (
        SELECT CASE j.start_window WHEN 0 THEN CAST(@default_window AS INTEGER) ELSE j.start_window END
        FROM jobs AS j WHERE j.id = job_state.job_id
    );

-- name: StepWindows :exec
-- Windows that were open while work was suspended.
UPDATE job_state SET start_deadline = start_deadline + CAST(@stood AS INTEGER)
WHERE state IN (1, 2, 6) AND schedule_time <= CAST(@now AS INTEGER)
    AND start_deadline > CAST(@now AS INTEGER) - CAST(@stood AS INTEGER);

-- name: StepEnds :exec
UPDATE job_state SET ended_at = CAST(@now AS INTEGER) WHERE ended_at > CAST(@now AS INTEGER);

-- name: StepHolds :exec
UPDATE connection_ready SET
    rate_limited_until = CASE WHEN rate_limited_until > CAST(@old AS INTEGER) THEN rate_limited_until + CAST(@by AS INTEGER) ELSE rate_limited_until END,
    paced_until = CASE WHEN paced_until > CAST(@old AS INTEGER) THEN paced_until + CAST(@by AS INTEGER) ELSE paced_until END,
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
UPDATE oauth_renewals SET until = until + CAST(@by AS INTEGER) WHERE until > CAST(@old AS INTEGER);
