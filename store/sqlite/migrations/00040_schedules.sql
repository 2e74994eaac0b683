-- Recurring schedules. What 00001 says of ids, times and numbers holds here too.

-- +goose Up

CREATE TABLE schedules (
    id                   BLOB    PRIMARY KEY NOT NULL CHECK (length(id) = 16),
    project              TEXT    NOT NULL CHECK (project <> ''),
    idem_key             TEXT    NOT NULL CHECK (idem_key <> ''),
    -- See job.KeyDigest.
    key_digest           BLOB    NOT NULL CHECK (length(key_digest) = 32),
    fingerprint          BLOB    NOT NULL,
    -- version rises with changes by callers and of the state, revision with every write.
    version              INTEGER NOT NULL CHECK (version >= 1),
    revision             INTEGER NOT NULL CHECK (revision >= version),
    generation           INTEGER NOT NULL CHECK (generation >= 1),
    spec                 BLOB    NOT NULL,
    template             BLOB    NOT NULL,
    policies             BLOB    NOT NULL,
    connection_id        BLOB    NOT NULL CHECK (length(connection_id) = 16),
    display_name         TEXT    NOT NULL,
    labels               TEXT    NOT NULL CHECK (json_valid(labels)),
    pause_after_failures INTEGER NOT NULL CHECK (pause_after_failures >= 0),
    -- ACTIVE, PAUSED, ENDED, DELETED.
    state                INTEGER NOT NULL CHECK (state BETWEEN 1 AND 4),
    pause_cause          INTEGER NOT NULL CHECK (pause_cause BETWEEN 0 AND 4),
    note                 TEXT    NOT NULL,
    paused_at            INTEGER,
    cursor_at            TEXT    NOT NULL CHECK (length(CAST(cursor_at AS BLOB)) <= 4096),
    -- When to decide next; NULL: never.
    next_at              INTEGER,
    -- The firing that waits, as JSON; empty: none does.
    buffered             TEXT    NOT NULL,
    -- Names, as a JSON list; empty: none.
    skips                TEXT    NOT NULL,
    run                  INTEGER NOT NULL CHECK (run >= 0),
    fired                INTEGER NOT NULL CHECK (fired >= 0),
    skipped_by_overlap   INTEGER NOT NULL CHECK (skipped_by_overlap >= 0),
    skipped_by_person    INTEGER NOT NULL CHECK (skipped_by_person >= 0),
    missed               INTEGER NOT NULL CHECK (missed >= 0),
    coalesced            INTEGER NOT NULL CHECK (coalesced >= 0),
    refused              INTEGER NOT NULL CHECK (refused >= 0),
    -- The number of its newest firing.
    last_firing          INTEGER NOT NULL DEFAULT 0 CHECK (last_firing >= 0),
    -- From when on its firings are all there.
    ledger_begin         INTEGER NOT NULL,
    created_at           INTEGER NOT NULL,
    updated_at           INTEGER NOT NULL,
    deleted_at           INTEGER,
    created_by           TEXT    NOT NULL,
    updated_by           TEXT    NOT NULL,
    CHECK ((pause_cause > 0) = (state = 2)),
    CHECK ((paused_at IS NULL) = (state <> 2)),
    CHECK (next_at IS NULL OR state = 1),
    CHECK (buffered = '' OR state = 1),
    CHECK ((deleted_at IS NULL) = (state <> 4)),
    CHECK (state <> 4 OR template = x'' AND note = '')
) STRICT;

CREATE UNIQUE INDEX schedules_key ON schedules (key_digest);
CREATE INDEX schedules_list ON schedules (project, created_at, id);
-- For quotas, and erasures of projects.
CREATE INDEX schedules_live ON schedules (project) WHERE state < 4;
-- What is decided: schedules that wait for a later time cost nothing.
CREATE INDEX schedules_due ON schedules (next_at) WHERE next_at IS NOT NULL;

-- +goose StatementBegin
CREATE TRIGGER schedules_insert BEFORE INSERT ON schedules
WHEN NEW.state > 2 OR NEW.version <> 1 OR NEW.revision <> 1 OR NEW.generation <> 1 OR NEW.run <> 0
BEGIN
    SELECT RAISE(FAIL, 'a schedule starts as ACTIVE or PAUSED, version 1');
END;
-- +goose StatementEnd

-- Moves are those of store.ScheduleState.Next.
-- +goose StatementBegin
CREATE TRIGGER schedules_update BEFORE UPDATE ON schedules
WHEN OLD.state = 4 AND (NEW.revision <> OLD.revision OR NEW.state <> 4)
    OR OLD.state = 3 AND NEW.state = 2
    OR NEW.state <> OLD.state AND NEW.version <> OLD.version + 1
    OR NEW.version < OLD.version OR NEW.version > OLD.version + 1
    OR NEW.revision < OLD.revision OR NEW.revision > OLD.revision + 1
    OR NEW.revision = OLD.revision AND (
        NEW.version <> OLD.version OR NEW.cursor_at <> OLD.cursor_at OR NEW.buffered <> OLD.buffered OR NEW.run <> OLD.run
    )
    OR NEW.generation < OLD.generation OR NEW.run < OLD.run OR NEW.last_firing < OLD.last_firing
    OR NEW.id <> OLD.id OR NEW.project <> OLD.project OR NEW.idem_key <> OLD.idem_key OR NEW.key_digest <> OLD.key_digest
    OR NEW.fingerprint <> OLD.fingerprint OR NEW.created_at <> OLD.created_at
BEGIN
    SELECT RAISE(FAIL, 'a schedule has no such change');
END;
-- +goose StatementEnd

-- What became of firings. A row is written once and not changed.
CREATE TABLE firings (
    schedule_id  BLOB    NOT NULL REFERENCES schedules (id),
    name         TEXT    NOT NULL CHECK (name <> '' AND length(CAST(name AS BLOB)) <= 200),
    -- Rises with the schedule's firings, in the order in which they were decided.
    number       INTEGER NOT NULL CHECK (number >= 1),
    nominal_at   INTEGER NOT NULL,
    local_time   TEXT    NOT NULL,
    mark         INTEGER NOT NULL CHECK (mark BETWEEN 0 AND 3),
    origin       INTEGER NOT NULL CHECK (origin BETWEEN 1 AND 4),
    outcome      INTEGER NOT NULL CHECK (outcome BETWEEN 1 AND 7 AND outcome <> 2),
    reason       TEXT    NOT NULL,
    job_id       BLOB    CHECK ((job_id IS NOT NULL) = (outcome = 1)),
    blocking_job BLOB,
    run          INTEGER NOT NULL CHECK (run >= 0),
    decided_at   INTEGER NOT NULL,
    PRIMARY KEY (schedule_id, name)
) STRICT, WITHOUT ROWID;

CREATE UNIQUE INDEX firings_list ON firings (schedule_id, number);
CREATE INDEX firings_jobs ON firings (schedule_id, number) WHERE job_id IS NOT NULL;
CREATE INDEX firings_old ON firings (decided_at);

-- +goose StatementBegin
CREATE TRIGGER firings_update BEFORE UPDATE ON firings
BEGIN
    SELECT RAISE(FAIL, 'a firing is not changed');
END;
-- +goose StatementEnd

-- Jobs of schedules that have not ended.
CREATE TABLE schedule_jobs (
    schedule_id BLOB NOT NULL,
    job_id      BLOB NOT NULL,
    PRIMARY KEY (schedule_id, job_id)
) STRICT, WITHOUT ROWID;

INSERT INTO schedule_jobs (schedule_id, job_id)
SELECT j.schedule_id, j.id FROM jobs AS j JOIN job_state AS s ON s.job_id = j.id
WHERE j.schedule_id IS NOT NULL AND s.state < 8;

-- +goose Down
-- There is no way down: a schema is only ever replaced by a newer one.
SELECT 1;
