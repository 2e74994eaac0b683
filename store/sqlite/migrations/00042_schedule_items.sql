-- Queues: the content that waits for the firings of a schedule. What 00001 says of ids, times and numbers holds here too.

-- +goose Up

-- Its firings take their content from its items.
ALTER TABLE schedules ADD COLUMN queued           INTEGER NOT NULL DEFAULT 0 CHECK (queued IN (0, 1));
ALTER TABLE schedules ADD COLUMN no_content       INTEGER NOT NULL DEFAULT 0 CHECK (no_content >= 0);
ALTER TABLE schedules ADD COLUMN skipped_by_limit INTEGER NOT NULL DEFAULT 0 CHECK (skipped_by_limit >= 0);
-- The newest local date on which it made jobs, and how many.
ALTER TABLE schedules ADD COLUMN day              TEXT    NOT NULL DEFAULT '' CHECK (length(CAST(day AS BLOB)) <= 10);
ALTER TABLE schedules ADD COLUMN day_count        INTEGER NOT NULL DEFAULT 0 CHECK (day_count >= 0 AND (day <> '' OR day_count = 0));

-- +goose StatementBegin
CREATE TRIGGER schedules_day BEFORE UPDATE ON schedules
WHEN NEW.day < OLD.day OR NEW.day = OLD.day AND NEW.day_count < OLD.day_count
BEGIN
    SELECT RAISE(FAIL, 'a schedule forgets no job of its day');
END;
-- +goose StatementEnd

-- Firings, with further outcomes.
CREATE TABLE firings_42 (
    schedule_id  BLOB    NOT NULL REFERENCES schedules (id),
    name         TEXT    NOT NULL CHECK (name <> '' AND length(CAST(name AS BLOB)) <= 200),
    -- Rises with the schedule's firings, in the order in which they were decided.
    number       INTEGER NOT NULL CHECK (number >= 1),
    nominal_at   INTEGER NOT NULL,
    local_time   TEXT    NOT NULL,
    mark         INTEGER NOT NULL CHECK (mark BETWEEN 0 AND 3),
    origin       INTEGER NOT NULL CHECK (origin BETWEEN 1 AND 4),
    outcome      INTEGER NOT NULL CHECK (outcome BETWEEN 1 AND 10 AND outcome <> 2),
    reason       TEXT    NOT NULL,
    job_id       BLOB    CHECK ((job_id IS NOT NULL) = (outcome = 1)),
    blocking_job BLOB,
    run          INTEGER NOT NULL CHECK (run >= 0),
    decided_at   INTEGER NOT NULL,
    PRIMARY KEY (schedule_id, name)
) STRICT, WITHOUT ROWID;

INSERT INTO firings_42 (
    schedule_id, name, number, nominal_at, local_time, mark, origin, outcome, reason, job_id, blocking_job, run, decided_at
)
SELECT schedule_id, name, number, nominal_at, local_time, mark, origin, outcome, reason, job_id, blocking_job, run, decided_at
FROM firings;

DROP TABLE firings;
ALTER TABLE firings_42 RENAME TO firings;
CREATE UNIQUE INDEX firings_list ON firings (schedule_id, number);
CREATE INDEX firings_jobs ON firings (schedule_id, number) WHERE job_id IS NOT NULL;
CREATE INDEX firings_old ON firings (decided_at);

-- +goose StatementBegin
CREATE TRIGGER firings_update BEFORE UPDATE ON firings
BEGIN
    SELECT RAISE(FAIL, 'a firing is not changed');
END;
-- +goose StatementEnd

CREATE TABLE schedule_items (
    id           BLOB    PRIMARY KEY NOT NULL CHECK (length(id) = 16),
    schedule_id  BLOB    NOT NULL REFERENCES schedules (id),
    idem_key     TEXT    NOT NULL CHECK (idem_key <> ''),
    fingerprint  BLOB    NOT NULL,
    version      INTEGER NOT NULL CHECK (version >= 1),
    -- WAITING, USED, REMOVED, REFUSED.
    state        INTEGER NOT NULL CHECK (state BETWEEN 1 AND 4),
    -- The order of those that wait.
    place        INTEGER NOT NULL,
    -- Content, while it is WAITING or REFUSED.
    payload      BLOB    NOT NULL CHECK (length(payload) <= 262144),
    payload_kind TEXT    NOT NULL,
    labels       TEXT    NOT NULL CHECK (json_valid(labels)),
    -- The firing and the job that took it.
    firing_name  TEXT    NOT NULL CHECK ((firing_name <> '') = (state = 2)),
    job_id       BLOB    CHECK ((job_id IS NOT NULL) = (state = 2)),
    -- Why it was refused.
    reason       TEXT    NOT NULL CHECK (reason = '' OR state = 4),
    created_at   INTEGER NOT NULL,
    updated_at   INTEGER NOT NULL,
    -- When it left the queue.
    ended_at     INTEGER CHECK ((ended_at IS NULL) = (state = 1)),
    created_by   TEXT    NOT NULL,
    updated_by   TEXT    NOT NULL,
    CHECK (state IN (1, 4) OR payload = x'' AND labels = '{}')
) STRICT;

-- A key is an item of its schedule for ever.
CREATE UNIQUE INDEX schedule_items_key ON schedule_items (schedule_id, idem_key);
-- An item is one job, and a firing takes one item.
CREATE UNIQUE INDEX schedule_items_job ON schedule_items (job_id) WHERE job_id IS NOT NULL;
CREATE UNIQUE INDEX schedule_items_firing ON schedule_items (schedule_id, firing_name) WHERE firing_name <> '';
-- Those that have content, in the order of the queue.
CREATE INDEX schedule_items_queue ON schedule_items (schedule_id, place, id) WHERE state IN (1, 4);
CREATE INDEX schedule_items_ended ON schedule_items (schedule_id, ended_at, id) WHERE ended_at IS NOT NULL;

-- +goose StatementBegin
CREATE TRIGGER schedule_items_insert BEFORE INSERT ON schedule_items
WHEN NEW.state <> 1 OR NEW.version <> 1
BEGIN
    SELECT RAISE(FAIL, 'an item starts as WAITING, version 1');
END;
-- +goose StatementEnd

-- Moves are those of store.ItemState.Next.
-- +goose StatementBegin
CREATE TRIGGER schedule_items_update BEFORE UPDATE ON schedule_items
WHEN OLD.state IN (2, 3)
    OR OLD.state = 4 AND NEW.state <> 3
    OR NEW.state <> OLD.state AND NEW.version <> OLD.version + 1
    OR NEW.version < OLD.version OR NEW.version > OLD.version + 1
    OR NEW.version = OLD.version AND (NEW.payload <> OLD.payload OR NEW.labels <> OLD.labels)
    OR NEW.id <> OLD.id OR NEW.schedule_id <> OLD.schedule_id OR NEW.idem_key <> OLD.idem_key
    OR NEW.fingerprint <> OLD.fingerprint OR NEW.created_at <> OLD.created_at
BEGIN
    SELECT RAISE(FAIL, 'an item of a schedule has no such change');
END;
-- +goose StatementEnd

-- +goose Down
-- There is no way down: a schema is only ever replaced by a newer one.
SELECT 1;
