-- Replies, statistics, restores, and lists by state. What 00001 says of ids,
-- times and numbers holds here too.

-- +goose Up

-- Rises when an open finds that the file was restored or copied: positions of an
-- earlier incarnation mean nothing in this one.
ALTER TABLE meta ADD COLUMN incarnation INTEGER NOT NULL DEFAULT 1 CHECK (incarnation >= 1);

-- The job to reply to, until that one has SUCCEEDED.
ALTER TABLE job_state ADD COLUMN waits_for BLOB CHECK (length(waits_for) = 16);
-- A copy of jobs.created_at, for the list by state.
ALTER TABLE job_state ADD COLUMN created_at INTEGER NOT NULL DEFAULT 0;

UPDATE job_state SET created_at = (SELECT j.created_at FROM jobs AS j WHERE j.id = job_state.job_id);

-- Before this version nothing waited.
UPDATE job_state SET waits_for = (SELECT j.reply_to FROM jobs AS j WHERE j.id = job_state.job_id)
WHERE EXISTS (
    SELECT 1 FROM jobs AS j JOIN job_state AS p ON p.job_id = j.reply_to
    WHERE j.id = job_state.job_id AND p.project = job_state.project AND p.state <> 8
);

DROP INDEX job_state_runnable;
CREATE INDEX job_state_runnable ON job_state (connection_id, hold_key, next_at)
WHERE state IN (1, 6) AND waits_for IS NULL;
-- Who waits for a job, by ready row.
CREATE INDEX job_state_waiting ON job_state (waits_for, connection_id, hold_key, next_at)
WHERE waits_for IS NOT NULL;

-- Lists and counts by state.
CREATE INDEX job_state_by_time ON job_state (project, state, schedule_time, job_id, connection_id);
CREATE INDEX job_state_by_creation ON job_state (project, state, created_at, job_id);
CREATE INDEX job_state_ended ON job_state (project, state, ended_at, connection_id) WHERE ended_at IS NOT NULL;

INSERT INTO transitions (from_state, to_state) VALUES (1, 7), (2, 7), (6, 7);

-- As before, but that a fence may be raised, when a quarantine ends.
DROP TRIGGER job_state_update;
-- +goose StatementBegin
CREATE TRIGGER job_state_update BEFORE UPDATE ON job_state
BEGIN
    SELECT RAISE(ABORT, 'illegal transition')
    WHERE OLD.state <> NEW.state
        AND NOT EXISTS (SELECT 1 FROM transitions WHERE from_state = OLD.state AND to_state = NEW.state);
    SELECT RAISE(ABORT, 'a change of state raises the version by one')
    WHERE NEW.version <> OLD.version + 1 AND (OLD.state <> NEW.state OR NEW.version <> OLD.version);
    SELECT RAISE(ABORT, 'an attempt rises by one, and only at an arm')
    WHERE NEW.attempt <> OLD.attempt AND (NEW.attempt <> OLD.attempt + 1 OR NEW.state <> 3 OR OLD.state = 3);
    SELECT RAISE(ABORT, 'a job that is being sent was armed')
    WHERE NEW.state = 3 AND OLD.state <> 3 AND NEW.attempt <> OLD.attempt + 1;
    SELECT RAISE(ABORT, 'a fence never comes earlier, and moves only by itself')
    WHERE NEW.state = 3 AND OLD.state = 3
        AND (NEW.next_at < OLD.next_at OR NEW.next_at > OLD.next_at AND NEW.version <> OLD.version);
    SELECT RAISE(ABORT, 'a job keeps its id and its connection')
    WHERE NEW.job_id <> OLD.job_id OR NEW.connection_id <> OLD.connection_id;
END;
-- +goose StatementEnd

-- +goose StatementBegin
CREATE TRIGGER attempts_fence BEFORE UPDATE OF fence_at ON attempts
WHEN NEW.fence_at < OLD.fence_at
BEGIN
    SELECT RAISE(ABORT, 'a fence never comes earlier');
END;
-- +goose StatementEnd

-- Each job's first attempt. lag is how long after its time, as it was then, the
-- job was armed.
CREATE TABLE starts (
    project       TEXT    NOT NULL,
    armed_at      INTEGER NOT NULL,
    job_id        BLOB    NOT NULL REFERENCES jobs (id),
    connection_id BLOB    NOT NULL,
    lag           INTEGER NOT NULL,
    PRIMARY KEY (project, armed_at, job_id)
) STRICT, WITHOUT ROWID;

INSERT INTO starts (project, armed_at, job_id, connection_id, lag)
SELECT s.project, a.armed_at, a.job_id, s.connection_id, a.armed_at - s.schedule_time
FROM attempts AS a JOIN job_state AS s ON s.job_id = a.job_id WHERE a.number = 1;

-- Effects that a repeat under the same key or a look has confirmed.
CREATE INDEX effects_recovered ON effects (at) WHERE proof IN (2, 3);

-- A check cannot be changed, so the log gets a new table for its new cause. Its
-- positions go on where they were, also if the newest events were dropped.
CREATE TABLE events_2 (
    position      INTEGER PRIMARY KEY AUTOINCREMENT,
    project       TEXT    NOT NULL,
    job_id        BLOB    NOT NULL CHECK (length(job_id) = 16),
    connection_id BLOB    NOT NULL,
    schedule_id   BLOB,
    sequence      INTEGER NOT NULL CHECK (sequence >= 1),
    from_state    INTEGER NOT NULL CHECK (from_state BETWEEN 0 AND 11),
    to_state      INTEGER NOT NULL CHECK (to_state BETWEEN 1 AND 11),
    cause         INTEGER NOT NULL CHECK (cause BETWEEN 1 AND 21),
    attempt       INTEGER NOT NULL,
    actor         TEXT    NOT NULL,
    reason        TEXT    NOT NULL,
    detail        TEXT    NOT NULL,
    at            INTEGER NOT NULL
) STRICT;

INSERT INTO events_2 (
    position, project, job_id, connection_id, schedule_id, sequence, from_state, to_state,
    cause, attempt, actor, reason, detail, at
)
SELECT
    position, project, job_id, connection_id, schedule_id, sequence, from_state, to_state,
    cause, attempt, actor, reason, detail, at
FROM events;

DELETE FROM sqlite_sequence WHERE name = 'events_2';
INSERT INTO sqlite_sequence (name, seq) SELECT 'events_2', seq FROM sqlite_sequence WHERE name = 'events';

DROP TABLE events;
ALTER TABLE events_2 RENAME TO events;
CREATE UNIQUE INDEX events_job ON events (job_id, sequence);

-- +goose Down
-- There is no way down: a schema is only ever replaced by a newer one.
SELECT 1;
