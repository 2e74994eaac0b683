-- Fewer rows and fewer trees for the usual life of a job. What 00001 says of ids,
-- times and numbers holds here too.

-- +goose Up

-- The attempt whose answer named nothing and proves the effect: such a proof has no
-- row in effects. It is of the round in which the job has SUCCEEDED, and as old as that.
ALTER TABLE job_state ADD COLUMN effect_attempt INTEGER;

-- One condition for a table's rules. A copy of job.Transitions, which a test compares
-- with it: bit n of the number of state s says that a job may go from s to n.
DROP TRIGGER job_state_insert;
DROP TRIGGER job_state_update;
DROP TABLE transitions;
-- +goose StatementBegin
CREATE TRIGGER job_state_insert BEFORE INSERT ON job_state
WHEN NEW.version <> 1 OR NEW.attempt <> 0 OR NEW.state <> 1
BEGIN
    SELECT RAISE(FAIL, 'a job starts as SCHEDULED, version 1, attempt 0');
END;
-- +goose StatementEnd

-- +goose StatementBegin
CREATE TRIGGER job_state_update BEFORE UPDATE ON job_state
WHEN
    CASE WHEN NEW.version = OLD.version + 2 THEN
        -- Two steps at once: a claim that arms. Nobody else ever has the lease, and
        -- each step has its event.
        (OLD.state <> 1 AND OLD.state <> 6) OR NEW.state <> 3 OR OLD.waits_for IS NOT NULL
        OR NEW.claims <> 0 OR NEW.claimed_at IS NOT NEW.updated_at
    ELSE
        ((CASE OLD.state
            WHEN 1 THEN 3206 WHEN 2 THEN 4062 WHEN 3 THEN 1912 WHEN 4 THEN 2000 WHEN 5 THEN 4088 WHEN 6 THEN 3540
            WHEN 7 THEN 2000 WHEN 8 THEN 256 WHEN 9 THEN 832 WHEN 10 THEN 1280 WHEN 11 THEN 2368
        END) >> NEW.state) & 1 IS NOT 1
        -- A change of state raises the version by one.
        OR NEW.version <> OLD.version + 1 AND (OLD.state <> NEW.state OR NEW.version <> OLD.version)
    END
    -- An attempt rises by one, and only at an arm; what is being sent was armed.
    OR NEW.attempt <> OLD.attempt AND (NEW.attempt <> OLD.attempt + 1 OR NEW.state <> 3 OR OLD.state = 3)
    OR NEW.state = 3 AND OLD.state <> 3 AND NEW.attempt <> OLD.attempt + 1
    -- A fence never comes earlier, but with the clock. It is raised when a quarantine
    -- ends, which is no change of the job.
    OR NEW.state = 3 AND OLD.state = 3 AND (
        NEW.next_at < OLD.next_at AND NOT EXISTS (SELECT 1 FROM clock WHERE stepping = 1)
        OR NEW.next_at > OLD.next_at AND NEW.version <> OLD.version
    )
    -- A job keeps its id and its connection.
    OR NEW.job_id <> OLD.job_id OR NEW.connection_id <> OLD.connection_id
BEGIN
    SELECT RAISE(FAIL, 'the protocol has no such change of a job');
END;
-- +goose StatementEnd

-- +goose Down
-- There is no way down: a schema is only ever replaced by a newer one.
SELECT 1;
