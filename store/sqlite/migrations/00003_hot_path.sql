-- Fewer trees for each step of a job. What 00001 says of ids, times and numbers
-- holds here too.
--   * A job is listed under its state, but while it is CLAIMED or SENDING under
--     the one that it came from: those moves touch no list. Who is under way is
--     found by the fences, which are few.
--   * The guards fail a statement instead of taking it back: a row that they
--     refuse is not written either way, and SQLite need not keep a copy of every
--     page that the statement changes. All of them judge one row. For the same
--     reason checks here call no function, so none looks at the length of a token;
--     and lists of more than two numbers are ranges or ORs, for which SQLite makes
--     no tree with each write.

-- +goose Up

CREATE TABLE job_state_3 (
    -- Checked at the commit: at once would cost a copy of each page, too.
    job_id          BLOB    PRIMARY KEY NOT NULL REFERENCES jobs (id) DEFERRABLE INITIALLY DEFERRED,
    project         TEXT    NOT NULL,
    connection_id   BLOB    NOT NULL,
    hold_key        TEXT    NOT NULL,
    state           INTEGER NOT NULL CHECK (state BETWEEN 1 AND 11),
    -- Under which state lists and counts have the job.
    listed          INTEGER NOT NULL,
    version         INTEGER NOT NULL CHECK (version >= 1),
    attempt         INTEGER NOT NULL DEFAULT 0 CHECK (attempt >= 0),
    round           INTEGER NOT NULL DEFAULT 1 CHECK (round >= 1),
    failures        INTEGER NOT NULL DEFAULT 0 CHECK (failures >= 0),
    claims          INTEGER NOT NULL DEFAULT 0 CHECK (claims >= 0),
    looks           INTEGER NOT NULL DEFAULT 0 CHECK (looks >= 0),
    negatives       INTEGER NOT NULL DEFAULT 0 CHECK (negatives >= 0),
    misses          INTEGER NOT NULL DEFAULT 0 CHECK (misses >= 0),
    schedule_time   INTEGER NOT NULL,
    start_deadline  INTEGER NOT NULL,
    -- The start, the lease's end, the fence, or the next look.
    next_at         INTEGER,
    claim_token     BLOB,
    claimed_at      INTEGER,
    worker          TEXT    NOT NULL DEFAULT '',
    class           INTEGER NOT NULL CHECK (class BETWEEN 1 AND 4),
    cancel_asked_at INTEGER,
    blocked         TEXT    NOT NULL DEFAULT '',
    error_kind      INTEGER NOT NULL DEFAULT 0 CHECK (error_kind BETWEEN 0 AND 10),
    error_message   TEXT    NOT NULL DEFAULT '',
    error_status    INTEGER NOT NULL DEFAULT 0,
    error_at        INTEGER,
    -- The newest row of resolutions.
    resolution_id   INTEGER,
    -- The job to reply to, until that one has SUCCEEDED.
    waits_for       BLOB,
    -- A copy of jobs.created_at, for lists.
    created_at      INTEGER NOT NULL,
    updated_at      INTEGER NOT NULL,
    ended_at        INTEGER,
    -- States that wait for nobody have nothing due; all others do.
    CHECK ((next_at IS NULL) = (state >= 7)),
    CHECK (claim_token IS NULL OR state = 2 OR state = 4 OR state = 5),
    CHECK (state <> 2 OR claim_token IS NOT NULL),
    CHECK ((ended_at IS NULL) = (state < 8)),
    CHECK (CASE state
        WHEN 2 THEN listed = 1 OR listed = 6
        WHEN 3 THEN listed = 1 OR listed = 5 OR listed = 6
        ELSE listed = state END)
) STRICT, WITHOUT ROWID;

INSERT INTO job_state_3 (
    job_id, project, connection_id, hold_key, state, listed, version, attempt, round, failures, claims,
    looks, negatives, schedule_time, start_deadline, next_at, claim_token, claimed_at, worker, class,
    cancel_asked_at, blocked, error_kind, error_message, error_status, error_at, resolution_id, waits_for,
    created_at, updated_at, ended_at
)
SELECT
    job_id, project, connection_id, hold_key, state, CASE WHEN state IN (2, 3) THEN 1 ELSE state END,
    version, attempt, round, failures, claims,
    looks, negatives, schedule_time, start_deadline, next_at, claim_token, claimed_at, worker, class,
    cancel_asked_at, blocked, error_kind, error_message, error_status, error_at, resolution_id, waits_for,
    created_at, updated_at, ended_at
FROM job_state;

DROP TABLE job_state;
ALTER TABLE job_state_3 RENAME TO job_state;

-- What a claim reads: SCHEDULED and RETRYING.
CREATE INDEX job_state_runnable ON job_state (connection_id, hold_key, next_at)
WHERE state IN (1, 6) AND waits_for IS NULL;
-- Who waits for a job, by ready row.
CREATE INDEX job_state_waiting ON job_state (waits_for, connection_id, hold_key, next_at)
WHERE waits_for IS NOT NULL;
-- Leases and fences: CLAIMED and SENDING.
CREATE INDEX job_state_fence ON job_state (next_at, job_id, connection_id) WHERE state IN (2, 3);
-- Looks and polls: ACCEPTED and AMBIGUOUS.
CREATE INDEX job_state_look ON job_state (next_at) WHERE state IN (4, 5);
-- Windows: SCHEDULED, RETRYING, and who came from there.
CREATE INDEX job_state_deadline ON job_state (start_deadline) WHERE listed IN (1, 6);
-- Lists and counts.
CREATE INDEX job_state_by_time ON job_state (project, listed, schedule_time, job_id, connection_id);
CREATE INDEX job_state_by_creation ON job_state (project, listed, created_at, job_id);
CREATE INDEX job_state_ended ON job_state (project, state, ended_at, connection_id) WHERE ended_at IS NOT NULL;
DROP INDEX jobs_created;

-- +goose StatementBegin
CREATE TRIGGER job_state_insert BEFORE INSERT ON job_state
WHEN NEW.version <> 1 OR NEW.attempt <> 0
    OR NOT EXISTS (SELECT 1 FROM transitions WHERE from_state = 0 AND to_state = NEW.state)
BEGIN
    SELECT RAISE(FAIL, 'a job starts as SCHEDULED, version 1, attempt 0');
END;
-- +goose StatementEnd

-- +goose StatementBegin
CREATE TRIGGER job_state_update BEFORE UPDATE ON job_state
BEGIN
    SELECT RAISE(FAIL, 'illegal transition')
    WHERE OLD.state <> NEW.state
        AND NOT EXISTS (SELECT 1 FROM transitions WHERE from_state = OLD.state AND to_state = NEW.state);
    SELECT RAISE(FAIL, 'a change of state raises the version by one')
    WHERE NEW.version <> OLD.version + 1 AND (OLD.state <> NEW.state OR NEW.version <> OLD.version);
    SELECT RAISE(FAIL, 'an attempt rises by one, and only at an arm')
    WHERE NEW.attempt <> OLD.attempt AND (NEW.attempt <> OLD.attempt + 1 OR NEW.state <> 3 OR OLD.state = 3);
    SELECT RAISE(FAIL, 'a job that is being sent was armed')
    WHERE NEW.state = 3 AND OLD.state <> 3 AND NEW.attempt <> OLD.attempt + 1;
    SELECT RAISE(FAIL, 'a fence never comes earlier, and moves only by itself')
    WHERE NEW.state = 3 AND OLD.state = 3
        AND (NEW.next_at < OLD.next_at OR NEW.next_at > OLD.next_at AND NEW.version <> OLD.version);
    SELECT RAISE(FAIL, 'a job keeps its id and its connection')
    WHERE NEW.job_id <> OLD.job_id OR NEW.connection_id <> OLD.connection_id;
END;
-- +goose StatementEnd

-- +goose StatementBegin
CREATE TRIGGER job_state_delete BEFORE DELETE ON job_state
WHEN OLD.state < 8
BEGIN
    SELECT RAISE(FAIL, 'a live job is never deleted');
END;
-- +goose StatementEnd

CREATE TABLE attempts_3 (
    job_id             BLOB    NOT NULL REFERENCES jobs (id) DEFERRABLE INITIALLY DEFERRED,
    number             INTEGER NOT NULL CHECK (number >= 1),
    round              INTEGER NOT NULL CHECK (round >= 1),
    arm_token          BLOB    NOT NULL,
    worker             TEXT    NOT NULL,
    claimed_at         INTEGER,
    armed_at           INTEGER NOT NULL,
    send_deadline      INTEGER NOT NULL,
    answer_deadline    INTEGER NOT NULL,
    -- After this the attempt can no longer act.
    fence_at           INTEGER NOT NULL,
    effect_key         TEXT    NOT NULL,
    request_digest     BLOB    NOT NULL,
    credential_version INTEGER NOT NULL,
    account_identity   TEXT    NOT NULL,
    watermark          TEXT    NOT NULL,
    handle             TEXT    NOT NULL DEFAULT '',
    -- 0: no outcome yet.
    result             INTEGER NOT NULL DEFAULT 0 CHECK (result BETWEEN 0 AND 7),
    kind               INTEGER NOT NULL DEFAULT 0 CHECK (kind BETWEEN 0 AND 10),
    message            TEXT    NOT NULL DEFAULT '',
    http_status        INTEGER NOT NULL DEFAULT 0,
    bytes_written      INTEGER NOT NULL DEFAULT 0,
    ended_at           INTEGER,
    frozen             BLOB    NOT NULL,
    PRIMARY KEY (job_id, number)
) STRICT;

INSERT INTO attempts_3 (
    job_id, number, round, arm_token, worker, claimed_at, armed_at, send_deadline, answer_deadline, fence_at,
    effect_key, request_digest, credential_version, account_identity, watermark, handle, result, kind, message,
    http_status, bytes_written, ended_at, frozen
)
SELECT
    job_id, number, round, arm_token, worker, claimed_at, armed_at, send_deadline, answer_deadline, fence_at,
    effect_key, request_digest, credential_version, account_identity, watermark, handle, result, kind, message,
    http_status, bytes_written, ended_at, frozen
FROM attempts;

DROP TABLE attempts;
ALTER TABLE attempts_3 RENAME TO attempts;
CREATE UNIQUE INDEX attempts_arm_token ON attempts (arm_token);

-- A job has few attempts: the trigger judges what a unique index did. An update
-- makes no attempt live, see the next one.
-- +goose StatementBegin
CREATE TRIGGER attempts_insert BEFORE INSERT ON attempts
WHEN EXISTS (
    SELECT 1 FROM attempts
    WHERE job_id = NEW.job_id AND (
        result = 0 AND NEW.result = 0 OR (result = 0 OR result = 4) AND effect_key <> NEW.effect_key
    )
)
BEGIN
    SELECT RAISE(FAIL, 'an earlier attempt is live, or open with another effect key');
END;
-- +goose StatementEnd

-- +goose StatementBegin
CREATE TRIGGER attempts_update BEFORE UPDATE ON attempts
WHEN OLD.result <> NEW.result
BEGIN
    SELECT RAISE(FAIL, 'a confirmed attempt stays confirmed') WHERE OLD.result = 1;
    SELECT RAISE(FAIL, 'what is known of an attempt is not forgotten')
    WHERE NEW.result = 0 OR NEW.result = 4 AND NEW.handle = '' AND (OLD.result = 2 OR OLD.result = 3 OR OLD.result = 7);
END;
-- +goose StatementEnd

-- +goose StatementBegin
CREATE TRIGGER attempts_fence BEFORE UPDATE OF fence_at ON attempts
WHEN NEW.fence_at < OLD.fence_at AND NOT EXISTS (SELECT 1 FROM clock WHERE stepping = 1)
BEGIN
    SELECT RAISE(FAIL, 'a fence never comes earlier');
END;
-- +goose StatementEnd

-- +goose Down
-- There is no way down: a schema is only ever replaced by a newer one.
SELECT 1;
