-- Recurring schedules. What 00001 says of ids, times and numbers holds here too.

-- +goose Up

CREATE TABLE schedules (
    id                   uuid        PRIMARY KEY,
    project              text        NOT NULL CHECK (project <> ''),
    idem_key             text        NOT NULL CHECK (idem_key <> ''),
    -- See job.KeyDigest.
    key_digest           bytea       NOT NULL CHECK (octet_length(key_digest) = 32),
    fingerprint          bytea       NOT NULL,
    -- version rises with changes by callers and of the state, revision with every write.
    version              bigint      NOT NULL,
    revision             bigint      NOT NULL,
    generation           bigint      NOT NULL,
    spec                 bytea       NOT NULL,
    template             bytea       NOT NULL,
    policies             bytea       NOT NULL,
    connection_id        uuid        NOT NULL,
    display_name         text        NOT NULL,
    labels               jsonb       NOT NULL CHECK (jsonb_typeof(labels) = 'object'),
    pause_after_failures bigint      NOT NULL,
    -- ACTIVE, PAUSED, ENDED, DELETED.
    state                smallint    NOT NULL,
    pause_cause          smallint    NOT NULL,
    note                 text        NOT NULL,
    paused_at            timestamptz,
    cursor_at            text        NOT NULL,
    -- When to decide next; NULL: never.
    next_at              timestamptz,
    -- The firing that waits, as JSON; empty: none does.
    buffered             text        NOT NULL,
    -- Names, as a JSON list; empty: none.
    skips                text        NOT NULL,
    run                  bigint      NOT NULL,
    fired                bigint      NOT NULL,
    skipped_by_overlap   bigint      NOT NULL,
    skipped_by_person    bigint      NOT NULL,
    missed               bigint      NOT NULL,
    coalesced            bigint      NOT NULL,
    refused              bigint      NOT NULL,
    -- The number of its newest firing.
    last_firing          bigint      NOT NULL DEFAULT 0,
    -- From when on its firings are all there.
    ledger_begin         timestamptz NOT NULL,
    created_at           timestamptz NOT NULL,
    updated_at           timestamptz NOT NULL,
    deleted_at           timestamptz,
    created_by           text        NOT NULL,
    updated_by           text        NOT NULL,
    CONSTRAINT schedules_row CHECK (
        state BETWEEN 1 AND 4 AND version >= 1 AND revision >= version AND generation >= 1 AND pause_after_failures >= 0
        AND run >= 0 AND fired >= 0 AND skipped_by_overlap >= 0 AND skipped_by_person >= 0 AND missed >= 0
        AND coalesced >= 0 AND refused >= 0 AND last_firing >= 0
        AND pause_cause BETWEEN 0 AND 4 AND (pause_cause > 0) = (state = 2) AND (paused_at IS NULL) = (state <> 2)
        AND (next_at IS NULL OR state = 1) AND (buffered = '' OR state = 1)
        AND (deleted_at IS NULL) = (state <> 4) AND (state <> 4 OR template = '' AND note = '')
        AND octet_length(cursor_at) <= 4096
    )
);

CREATE UNIQUE INDEX schedules_key ON schedules (key_digest);
CREATE INDEX schedules_list ON schedules (project, created_at, id);
-- For quotas, and erasures of projects.
CREATE INDEX schedules_live ON schedules (project) WHERE state < 4;
-- What is decided: schedules that wait for a later time cost nothing.
CREATE INDEX schedules_due ON schedules (next_at) WHERE next_at IS NOT NULL;

CREATE TRIGGER schedules_insert BEFORE INSERT ON schedules FOR EACH ROW
WHEN (NEW.state NOT IN (1, 2) OR NEW.version <> 1 OR NEW.revision <> 1 OR NEW.generation <> 1 OR NEW.run <> 0)
EXECUTE FUNCTION refuse('a schedule starts as ACTIVE or PAUSED, version 1');

-- Moves are those of store.ScheduleState.Next.
CREATE TRIGGER schedules_update BEFORE UPDATE ON schedules FOR EACH ROW
WHEN (
    OLD.state = 4
        AND (NEW.revision <> OLD.revision OR NEW.state <> 4)
    OR OLD.state = 3 AND NEW.state = 2
    OR NEW.state <> OLD.state AND NEW.version <> OLD.version + 1
    OR NEW.version NOT IN (OLD.version, OLD.version + 1)
    OR NEW.revision NOT IN (OLD.revision, OLD.revision + 1)
    OR NEW.revision = OLD.revision AND (
        NEW.version <> OLD.version OR NEW.cursor_at <> OLD.cursor_at OR NEW.buffered <> OLD.buffered OR NEW.run <> OLD.run
    )
    OR NEW.generation < OLD.generation OR NEW.run < OLD.run OR NEW.last_firing < OLD.last_firing
    OR NEW.id <> OLD.id OR NEW.project <> OLD.project OR NEW.idem_key <> OLD.idem_key OR NEW.key_digest <> OLD.key_digest
    OR NEW.fingerprint <> OLD.fingerprint OR NEW.created_at <> OLD.created_at
)
EXECUTE FUNCTION refuse('a schedule has no such change');

-- What became of firings. A row is written once and not changed.
CREATE TABLE firings (
    schedule_id  uuid        NOT NULL REFERENCES schedules (id),
    name         text        NOT NULL CHECK (name <> '' AND octet_length(name) <= 200),
    -- Rises with the schedule's firings, in the order in which they were decided.
    number       bigint      NOT NULL CHECK (number >= 1),
    nominal_at   timestamptz NOT NULL,
    local_time   text        NOT NULL,
    mark         smallint    NOT NULL CHECK (mark BETWEEN 0 AND 3),
    origin       smallint    NOT NULL CHECK (origin BETWEEN 1 AND 4),
    outcome      smallint    NOT NULL CHECK (outcome BETWEEN 1 AND 7 AND outcome <> 2),
    reason       text        NOT NULL,
    job_id       uuid        CHECK ((job_id IS NOT NULL) = (outcome = 1)),
    blocking_job uuid,
    run          bigint      NOT NULL CHECK (run >= 0),
    decided_at   timestamptz NOT NULL,
    PRIMARY KEY (schedule_id, name)
);

CREATE UNIQUE INDEX firings_list ON firings (schedule_id, number);
CREATE INDEX firings_jobs ON firings (schedule_id, number) WHERE job_id IS NOT NULL;
CREATE INDEX firings_old ON firings (decided_at);

CREATE TRIGGER firings_update BEFORE UPDATE ON firings FOR EACH ROW
EXECUTE FUNCTION refuse('a firing is not changed');

-- Jobs of schedules that have not ended. Jobs without a schedule are not in it.
CREATE INDEX job_state_of_schedule ON job_state (schedule_id, job_id) WHERE schedule_id IS NOT NULL AND ended_at IS NULL;

-- +goose Down
-- There is no way down: a schema is only ever replaced by a newer one.
SELECT 1;
