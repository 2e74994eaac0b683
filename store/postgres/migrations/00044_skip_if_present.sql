-- Jobs that are not wanted if their content is there (see job.AlreadyPresent). What 00001
-- says of ids, times and numbers holds here too.

-- +goose Up

-- 30 days at most. 0: the content is not looked for.
ALTER TABLE jobs ADD COLUMN skip_if_present bigint NOT NULL DEFAULT 0 CHECK (skip_if_present BETWEEN 0 AND 2592000000000);

-- One more kind of failure and one more cause. What was allowed before is allowed now, so
-- the rows that are there are not read.
ALTER TABLE job_state DROP CONSTRAINT job_state_row;
ALTER TABLE job_state ADD CONSTRAINT job_state_row CHECK (
    state BETWEEN 1 AND 11 AND version >= 1 AND round >= 1
    AND attempt >= 0 AND failures >= 0 AND claims >= 0 AND looks >= 0 AND negatives >= 0 AND misses >= 0
    AND start_window >= 0 AND class BETWEEN 1 AND 4 AND error_kind BETWEEN 0 AND 11
    -- States that wait for nobody have nothing due; all others do.
    AND (next_at IS NULL) = (state IN (7, 8, 9, 10, 11))
    AND (claim_token IS NULL OR state IN (2, 4, 5))
    AND (state <> 2 OR claim_token IS NOT NULL)
    AND (ended_at IS NULL) = (state NOT IN (8, 9, 10, 11))
    AND (effect_at IS NULL OR state = 8)
) NOT VALID;
ALTER TABLE events DROP CONSTRAINT events_row;
ALTER TABLE events ADD CONSTRAINT events_row CHECK (
    sequence >= 1 AND from_state BETWEEN 0 AND 11 AND to_state BETWEEN 1 AND 11 AND cause BETWEEN 1 AND 24
) NOT VALID;

-- +goose Down
-- There is no way down: a schema is only ever replaced by a newer one.
SELECT 1;
