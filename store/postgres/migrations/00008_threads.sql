-- Replies: how long they wait, and what became of what they wait for. What 00001 says
-- of ids, times and numbers holds here too.

-- +goose Up

-- Microseconds: how long a reply waits for its predecessor, from its own time on. 0: as
-- long as the program says. As long as the job waits, start_deadline is the end of that.
ALTER TABLE job_state ADD COLUMN wait_window bigint NOT NULL DEFAULT 0;
-- The state in which the job of waits_for ended without success. 0: it has not.
ALTER TABLE job_state ADD COLUMN predecessor_end smallint NOT NULL DEFAULT 0;

ALTER TABLE events DROP CONSTRAINT events_row;
ALTER TABLE events ADD CONSTRAINT events_row CHECK (
    sequence >= 1 AND from_state BETWEEN 0 AND 11 AND to_state BETWEEN 1 AND 11 AND cause BETWEEN 1 AND 23
) NOT VALID;

-- As before, but that RetryJob may take up a reply that was left behind.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION legal_transition(from_state smallint, to_state smallint) RETURNS boolean
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN coalesce(('[0:11]={2,3206,4062,1912,2000,4088,3540,2000,256,832,1344,2368}'::integer[])[from_state] >> to_state & 1 = 1, false);
-- +goose StatementEnd

-- A start deadline of a reply that waits was that of its start window, which counts
-- from the end of its predecessor from now on.
UPDATE job_state AS s SET
    predecessor_end = coalesce((SELECT p.state FROM job_state AS p WHERE p.job_id = s.waits_for AND p.state > 8), 0),
    start_deadline = CASE WHEN s.state IN (1, 6) THEN s.next_at + interval '72 hours' ELSE s.start_deadline END
WHERE s.waits_for IS NOT NULL;

-- Replies that nothing is left to wait for.
CREATE INDEX job_state_left ON job_state (updated_at) WHERE predecessor_end > 0 AND state IN (1, 6);

-- +goose Down
SELECT 1;
