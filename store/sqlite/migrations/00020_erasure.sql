-- What stays of jobs and projects that somebody asked to have erased. What 00001 says of
-- ids, times and numbers holds here too.

-- +goose Up

-- Whoever adds a table with something of a job: RemoveJob's callers (retention.go) remove it.
CREATE TABLE erased_jobs (
    job_id        BLOB    PRIMARY KEY NOT NULL CHECK (length(job_id) = 16),
    project       TEXT    NOT NULL,
    -- See job.KeyDigest.
    key_digest    BLOB    NOT NULL CHECK (length(key_digest) = 32),
    state         INTEGER NOT NULL CHECK (state IN (8, 9, 10, 11)),
    class         INTEGER NOT NULL CHECK (class BETWEEN 1 AND 4),
    attempts      INTEGER NOT NULL CHECK (attempts >= 0),
    -- Of its effect; 0: it had none.
    proof         INTEGER NOT NULL CHECK (proof BETWEEN 0 AND 5),
    effect_at     INTEGER,
    -- See store.ObjectDigest.
    object_digest BLOB    CHECK (length(object_digest) = 32),
    schedule_time INTEGER NOT NULL,
    created_at    INTEGER NOT NULL,
    ended_at      INTEGER NOT NULL,
    erased_at     INTEGER NOT NULL,
    -- Who asked for it, without a name.
    actor         TEXT    NOT NULL
) STRICT, WITHOUT ROWID;

-- When and by whom the project was erased last.
ALTER TABLE projects ADD COLUMN erased_at INTEGER;
ALTER TABLE projects ADD COLUMN erased_by TEXT NOT NULL DEFAULT '';

-- All keys of a project.
CREATE INDEX api_keys_of ON api_keys (project);

-- +goose Down
-- There is no way down: a schema is only ever replaced by a newer one.
SELECT 1;
