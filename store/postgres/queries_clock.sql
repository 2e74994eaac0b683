-- The clock: what servers believe, and what a step changes that the other engine stores in
-- another way. store/sqlstore has the other changes of a step, and explains its times.

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
-- The newest attempts of jobs that have not ended, and of those that a retry would restart.
UPDATE job_state SET
    armed_at = CASE armed_at WHEN @unknown::timestamptz THEN armed_at ELSE armed_at + @by::interval END,
    round_armed_at = CASE round_armed_at WHEN @unknown::timestamptz THEN round_armed_at ELSE round_armed_at + @by::interval END,
    send_deadline = send_deadline + @by::interval, answer_deadline = answer_deadline + @by::interval,
    fence_at = fence_at + @by::interval
WHERE attempt > 0 AND armed_at <> @unknown::timestamptz AND (fence_at > @over::timestamptz OR state IN (2, 3, 4, 5, 6, 7));

-- name: ForgetKeyAges :exec
-- Class 1 is KEYED.
UPDATE job_state SET armed_at = @unknown::timestamptz, round_armed_at = @unknown::timestamptz
WHERE attempt > 0 AND state IN (2, 3, 5, 6, 7) AND class = 1;

-- name: StepBuckets :exec
UPDATE connection_claims SET bucket_at = bucket_at + @by_micros::bigint WHERE bucket_at > 0;

-- name: StepRetention :exec
UPDATE retention SET lease_until = lease_until + @by::interval WHERE lease_until > @over::timestamptz;

-- name: StepRoll :exec
UPDATE rollup_place SET lease_until = lease_until + @by::interval WHERE lease_until > @over::timestamptz;
