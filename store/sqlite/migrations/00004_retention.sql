-- Retention: what is removed, and what stays of it. What 00001 says of ids, times
-- and numbers holds here too.

-- +goose Up

-- Up to here no event is left whose job is gone.
ALTER TABLE meta ADD COLUMN dropped_to INTEGER NOT NULL DEFAULT 0;

-- A removed job's object, where others may still meet it by looking, keeps its row.
-- A reference cannot be dropped, so the effects get a new table, and so do the
-- starts, whose reference would be looked for in the whole table at each removal.
CREATE TABLE effects_2 (
    job_id       BLOB    PRIMARY KEY NOT NULL,
    account      TEXT    NOT NULL,
    namespace    TEXT    NOT NULL,
    external_id  TEXT    NOT NULL,
    external_url TEXT    NOT NULL,
    owns_id      INTEGER NOT NULL DEFAULT 1 CHECK (owns_id IN (0, 1)),
    attempt      INTEGER NOT NULL,
    round        INTEGER NOT NULL,
    proof        INTEGER NOT NULL CHECK (proof BETWEEN 1 AND 5),
    at           INTEGER NOT NULL,
    job_removed  INTEGER NOT NULL DEFAULT 0 CHECK (job_removed IN (0, 1)),
    -- Another job that names the same object.
    shared_with  BLOB,
    -- Whether the job has got its event of cause EFFECT_SHARED.
    told         INTEGER NOT NULL DEFAULT 0 CHECK (told IN (0, 1))
) STRICT;

INSERT INTO effects_2 (job_id, account, namespace, external_id, external_url, owns_id, attempt, round, proof, at)
SELECT job_id, account, namespace, external_id, external_url, owns_id, attempt, round, proof, at FROM effects;

DROP TABLE effects;
ALTER TABLE effects_2 RENAME TO effects;
CREATE UNIQUE INDEX effects_object ON effects (account, namespace, external_id)
WHERE external_id <> '' AND owns_id = 1;
CREATE INDEX effects_recovered ON effects (at) WHERE proof IN (2, 3);
CREATE INDEX effects_removed ON effects (at) WHERE job_removed = 1;

CREATE TABLE starts_2 (
    project       TEXT    NOT NULL,
    armed_at      INTEGER NOT NULL,
    job_id        BLOB    NOT NULL,
    connection_id BLOB    NOT NULL,
    lag           INTEGER NOT NULL,
    PRIMARY KEY (project, armed_at, job_id)
) STRICT, WITHOUT ROWID;

INSERT INTO starts_2 (project, armed_at, job_id, connection_id, lag)
SELECT project, armed_at, job_id, connection_id, lag FROM starts;

DROP TABLE starts;
ALTER TABLE starts_2 RENAME TO starts;

-- Who replies to a job.
CREATE INDEX jobs_reply ON jobs (reply_to) WHERE reply_to IS NOT NULL;
-- Keys that outlive their jobs.
CREATE INDEX job_keys_kept ON job_keys (kept_until) WHERE kept_until IS NOT NULL;

-- What each project stores, kept in step with jobs by every transaction that writes there: to
-- count the rows would cost more the more there are.
CREATE TABLE project_use (
    project TEXT    PRIMARY KEY NOT NULL,
    jobs    INTEGER NOT NULL,
    -- Of their payloads.
    bytes   INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

INSERT INTO project_use (project, jobs, bytes) SELECT project, count(*), sum(length(payload)) FROM jobs GROUP BY project;

-- Connections that count, by project.
CREATE INDEX connections_live ON connections (project) WHERE deleted_at IS NULL;

-- +goose Down
-- There is no way down: a schema is only ever replaced by a newer one.
SELECT 1;
