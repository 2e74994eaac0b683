-- Queues: the content that waits for the firings of a schedule. What 00001 says of ids, times and numbers holds here too.

-- +goose Up

ALTER TABLE schedules
    -- Its firings take their content from its items.
    ADD COLUMN queued           boolean NOT NULL DEFAULT false,
    ADD COLUMN no_content       bigint  NOT NULL DEFAULT 0,
    ADD COLUMN skipped_by_limit bigint  NOT NULL DEFAULT 0,
    -- The newest local date on which it made jobs, and how many.
    ADD COLUMN day              text    NOT NULL DEFAULT '',
    ADD COLUMN day_count        bigint  NOT NULL DEFAULT 0,
    ADD CONSTRAINT schedules_slots CHECK (
        no_content >= 0 AND skipped_by_limit >= 0 AND day_count >= 0 AND (day <> '' OR day_count = 0) AND octet_length(day) <= 10
    );

CREATE TRIGGER schedules_day BEFORE UPDATE ON schedules FOR EACH ROW
WHEN (NEW.day COLLATE "C" < OLD.day COLLATE "C" OR NEW.day = OLD.day AND NEW.day_count < OLD.day_count)
EXECUTE FUNCTION refuse('a schedule forgets no job of its day');

ALTER TABLE firings
    DROP CONSTRAINT firings_outcome_check,
    ADD CONSTRAINT firings_outcome_check CHECK (outcome BETWEEN 1 AND 10 AND outcome <> 2);

CREATE TABLE schedule_items (
    id           uuid        PRIMARY KEY,
    schedule_id  uuid        NOT NULL REFERENCES schedules (id),
    idem_key     text        NOT NULL CHECK (idem_key <> ''),
    fingerprint  bytea       NOT NULL,
    version      bigint      NOT NULL,
    -- WAITING, USED, REMOVED, REFUSED.
    state        smallint    NOT NULL,
    -- The order of those that wait.
    place        bigint      NOT NULL,
    -- Content, while it is WAITING or REFUSED.
    payload      bytea       NOT NULL,
    payload_kind text        NOT NULL,
    labels       jsonb       NOT NULL CHECK (jsonb_typeof(labels) = 'object'),
    -- The firing and the job that took it.
    firing_name  text        NOT NULL,
    job_id       uuid,
    -- Why it was refused.
    reason       text        NOT NULL,
    created_at   timestamptz NOT NULL,
    updated_at   timestamptz NOT NULL,
    -- When it left the queue.
    ended_at     timestamptz,
    created_by   text        NOT NULL,
    updated_by   text        NOT NULL,
    CONSTRAINT schedule_items_row CHECK (
        state BETWEEN 1 AND 4 AND version >= 1 AND (ended_at IS NULL) = (state = 1)
        AND (job_id IS NOT NULL) = (state = 2) AND (firing_name <> '') = (state = 2) AND (reason = '' OR state = 4)
        AND (state IN (1, 4) OR payload = '' AND labels = '{}'::jsonb) AND octet_length(payload) <= 262144
    )
);

-- A key is an item of its schedule for ever.
CREATE UNIQUE INDEX schedule_items_key ON schedule_items (schedule_id, idem_key);
-- An item is one job, and a firing takes one item.
CREATE UNIQUE INDEX schedule_items_job ON schedule_items (job_id) WHERE job_id IS NOT NULL;
CREATE UNIQUE INDEX schedule_items_firing ON schedule_items (schedule_id, firing_name) WHERE firing_name <> '';
-- Those that have content, in the order of the queue.
CREATE INDEX schedule_items_queue ON schedule_items (schedule_id, place, id) WHERE state IN (1, 4);
CREATE INDEX schedule_items_ended ON schedule_items (schedule_id, ended_at, id) WHERE ended_at IS NOT NULL;

CREATE TRIGGER schedule_items_insert BEFORE INSERT ON schedule_items FOR EACH ROW
WHEN (NEW.state <> 1 OR NEW.version <> 1)
EXECUTE FUNCTION refuse('an item starts as WAITING, version 1');

-- Moves are those of store.ItemState.Next.
CREATE TRIGGER schedule_items_update BEFORE UPDATE ON schedule_items FOR EACH ROW
WHEN (
    OLD.state IN (2, 3)
    OR OLD.state = 4 AND NEW.state <> 3
    OR NEW.state <> OLD.state AND NEW.version <> OLD.version + 1
    OR NEW.version NOT IN (OLD.version, OLD.version + 1)
    OR NEW.version = OLD.version AND (NEW.payload <> OLD.payload OR NEW.labels <> OLD.labels)
    OR NEW.id <> OLD.id OR NEW.schedule_id <> OLD.schedule_id OR NEW.idem_key <> OLD.idem_key
    OR NEW.fingerprint <> OLD.fingerprint OR NEW.created_at <> OLD.created_at
)
EXECUTE FUNCTION refuse('an item of a schedule has no such change');

-- +goose Down
-- There is no way down: a schema is only ever replaced by a newer one.
SELECT 1;
