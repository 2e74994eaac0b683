-- A job that is claimed and armed in one transaction is written once, as the arm
-- leaves it. What 00001 says of ids, times and numbers holds here too.

-- +goose Up

DROP TRIGGER job_state_insert ON job_state;
DROP TRIGGER job_state_update ON job_state;

-- A job that is stored, claimed and armed at once is written as the arm leaves it.
CREATE TRIGGER job_state_insert BEFORE INSERT ON job_state FOR EACH ROW
WHEN (
    (NEW.version <> 1 OR NEW.attempt <> 0 OR NOT legal_transition(0::smallint, NEW.state))
    AND (NEW.version <> 3 OR NEW.attempt <> 1 OR NEW.state <> 3 OR NEW.waits_for IS NOT NULL OR NEW.claimed_at IS NULL)
)
EXECUTE FUNCTION refuse('a job starts as SCHEDULED, version 1, attempt 0, or as SENDING, version 3, attempt 1');

-- One trigger, because its condition too is compiled by every statement.
CREATE TRIGGER job_state_update BEFORE UPDATE ON job_state FOR EACH ROW
WHEN (
    CASE WHEN NEW.version = OLD.version + 2 THEN
        -- Two steps at once: a claim that arms. Nobody else ever has the lease, and
        -- each step has its event.
        OLD.state = 2 OR NOT legal_transition(OLD.state, 2::smallint) OR NEW.state <> 3 OR OLD.waits_for IS NOT NULL
        OR NEW.claims <> 0 OR NEW.claimed_at IS DISTINCT FROM NEW.updated_at
        OR NEW.position < OLD.position + 2
    ELSE
        NOT legal_transition(OLD.state, NEW.state)
        -- A change of state raises the version by one.
        OR NEW.version <> OLD.version + 1 AND (OLD.state <> NEW.state OR NEW.version <> OLD.version)
    END
    -- The events of a job are in the order of their positions.
    OR (NEW.version <> OLD.version) <> (NEW.position > OLD.position)
    -- An attempt rises by one, and only at an arm; what is being sent was armed.
    OR NEW.attempt <> OLD.attempt AND (NEW.attempt <> OLD.attempt + 1 OR NEW.state <> 3 OR OLD.state = 3)
    OR NEW.state = 3 AND OLD.state <> 3 AND NEW.attempt <> OLD.attempt + 1
    -- A fence never comes earlier, but with the clock. It is raised when a quarantine
    -- ends, which is no change of the job.
    OR NEW.state = 3 AND OLD.state = 3 AND (
        NEW.next_at < OLD.next_at AND current_setting('fireonce.stepping', true) IS DISTINCT FROM 'on'
        OR NEW.next_at > OLD.next_at AND NEW.version <> OLD.version
    )
    -- A job keeps its id, its project and its connection.
    OR NEW.job_id <> OLD.job_id OR NEW.connection_id <> OLD.connection_id OR NEW.project <> OLD.project
)
EXECUTE FUNCTION refuse('the protocol has no such change of a job');

-- The end of a job asks whether any connection is set aside at all.
CREATE INDEX connection_ready_saturated ON connection_ready (connection_id) WHERE saturated;

-- Every deadline is earlier than that, and only who says so may use the index. A
-- planner that knows the tables as empty took it for what a connection has due, and
-- read all that was pending.
DROP INDEX job_state_deadline;
CREATE INDEX job_state_deadline ON job_state (start_deadline) WHERE state IN (1, 6) AND start_deadline < 'infinity';

-- +goose Down
SELECT 1;
