-- Replies: how long they wait, and what became of what they wait for. What 00001 says
-- of ids, times and numbers holds here too.

-- +goose Up

-- How long a reply waits for its predecessor, from its own time on. 0: as long as the
-- program says. As long as the job waits, start_deadline is the end of that.
ALTER TABLE job_state ADD COLUMN wait_window INTEGER NOT NULL DEFAULT 0;
-- The state in which the job of waits_for ended without success. 0: it has not.
ALTER TABLE job_state ADD COLUMN predecessor_end INTEGER NOT NULL DEFAULT 0;

-- A check cannot be changed, so the log gets a new table for its new cause. Its
-- positions go on where they were, also if the newest events were dropped.
CREATE TABLE events_3 (
    position      INTEGER PRIMARY KEY AUTOINCREMENT,
    project       TEXT    NOT NULL,
    job_id        BLOB    NOT NULL CHECK (length(job_id) = 16),
    connection_id BLOB    NOT NULL,
    schedule_id   BLOB,
    sequence      INTEGER NOT NULL CHECK (sequence >= 1),
    from_state    INTEGER NOT NULL CHECK (from_state BETWEEN 0 AND 11),
    to_state      INTEGER NOT NULL CHECK (to_state BETWEEN 1 AND 11),
    cause         INTEGER NOT NULL CHECK (cause BETWEEN 1 AND 23),
    attempt       INTEGER NOT NULL,
    actor         TEXT    NOT NULL,
    reason        TEXT    NOT NULL,
    detail        TEXT    NOT NULL,
    at            INTEGER NOT NULL
) STRICT;

INSERT INTO events_3 (
    position, project, job_id, connection_id, schedule_id, sequence, from_state, to_state,
    cause, attempt, actor, reason, detail, at
)
SELECT
    position, project, job_id, connection_id, schedule_id, sequence, from_state, to_state,
    cause, attempt, actor, reason, detail, at
FROM events;

DELETE FROM sqlite_sequence WHERE name = 'events_3';
INSERT INTO sqlite_sequence (name, seq) SELECT 'events_3', seq FROM sqlite_sequence WHERE name = 'events';

DROP TABLE events;
ALTER TABLE events_3 RENAME TO events;
CREATE UNIQUE INDEX events_job ON events (job_id, sequence);

-- As before, but that RetryJob may take up a reply that was left behind.
DROP TRIGGER job_state_update;

-- A start deadline of a reply that waits was that of its start window, which counts
-- from the end of its predecessor from now on.
UPDATE job_state SET
    predecessor_end = coalesce((
        SELECT p.state FROM job_state AS p WHERE p.job_id = job_state.waits_for AND p.state > 8
    ), 0),
    start_deadline = CASE WHEN state = 1 OR state = 6 THEN next_at + 259200000000 ELSE start_deadline END
WHERE waits_for IS NOT NULL;

-- Replies that nothing is left to wait for.
CREATE INDEX job_state_left ON job_state (updated_at) WHERE predecessor_end > 0 AND state IN (1, 6);

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
            WHEN 7 THEN 2000 WHEN 8 THEN 256 WHEN 9 THEN 832 WHEN 10 THEN 1344 WHEN 11 THEN 2368
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
