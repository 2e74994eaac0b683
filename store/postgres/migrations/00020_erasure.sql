-- What stays of jobs and projects that somebody asked to have erased. What 00001 says of
-- ids, times and numbers holds here too.

-- +goose Up

-- Whoever adds a table with something of a job: removeRows (retention.go) removes it.
CREATE TABLE erased_jobs (
    job_id        uuid        PRIMARY KEY,
    project       text        NOT NULL,
    -- See job.KeyDigest.
    key_digest    bytea       NOT NULL CHECK (octet_length(key_digest) = 32),
    state         smallint    NOT NULL CHECK (state IN (8, 9, 10, 11)),
    class         smallint    NOT NULL CHECK (class BETWEEN 1 AND 4),
    attempts      bigint      NOT NULL CHECK (attempts >= 0),
    -- Of its effect; 0: it had none.
    proof         smallint    NOT NULL CHECK (proof BETWEEN 0 AND 5),
    effect_at     timestamptz,
    -- See store.ObjectDigest.
    object_digest bytea       CHECK (octet_length(object_digest) = 32),
    schedule_time timestamptz NOT NULL,
    created_at    timestamptz NOT NULL,
    ended_at      timestamptz NOT NULL,
    erased_at     timestamptz NOT NULL,
    -- Who asked for it, without a name.
    actor         text        NOT NULL
);

-- When and by whom the project was erased last.
ALTER TABLE projects ADD COLUMN erased_at timestamptz;
ALTER TABLE projects ADD COLUMN erased_by text NOT NULL DEFAULT '';

-- All keys of a project.
CREATE INDEX api_keys_of ON api_keys (project);

-- +goose Down
-- There is no way down: a schema is only ever replaced by a newer one.
SELECT 1;
