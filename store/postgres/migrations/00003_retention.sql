-- Retention: what is removed, and what stays of it. What 00001 says of ids, times
-- and numbers holds here too.

-- +goose Up

-- Which server cleans, and how far it has come with the log. Apart from meta, which
-- every write reads: a row that changes often grows a tail of versions.
CREATE TABLE retention (
    id          smallint    PRIMARY KEY CHECK (id = 1),
    owner       uuid,
    lease_until timestamptz NOT NULL DEFAULT 'epoch',
    -- Up to here no event is left whose job is gone.
    dropped_to  bigint      NOT NULL DEFAULT 0
);

INSERT INTO retention (id) VALUES (1);

-- A removed job's object, where others may still meet it by looking, keeps its row.
ALTER TABLE effects ADD COLUMN job_removed boolean NOT NULL DEFAULT false;

-- +goose StatementBegin
CREATE OR REPLACE FUNCTION check_deleted() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF EXISTS (SELECT 1 FROM deleted AS d WHERE EXISTS (SELECT 1 FROM job_state AS s WHERE s.job_id = d.id)
        OR EXISTS (SELECT 1 FROM attempts AS a WHERE a.job_id = d.id)
        OR EXISTS (SELECT 1 FROM effects AS e WHERE e.job_id = d.id AND NOT e.job_removed))
    THEN
        RAISE EXCEPTION USING ERRCODE = 'foreign_key_violation', TABLE = TG_TABLE_NAME, CONSTRAINT = TG_NAME,
            MESSAGE = 'a job is deleted with all that belongs to it';
    END IF;
    RETURN NULL;
END
$$;
-- +goose StatementEnd

CREATE INDEX effects_removed ON effects (at) WHERE job_removed;

-- Who replies to a job.
CREATE INDEX jobs_reply ON jobs (reply_to) WHERE reply_to IS NOT NULL;
-- Keys that outlive their jobs.
CREATE INDEX job_keys_kept ON job_keys (kept_until) WHERE kept_until IS NOT NULL;

-- What each project stores: the sum of its rows. Each transaction that stores, removes or
-- changes jobs adds a row of its own, so that none waits for another; StoredJobs
-- replaces many rows by their sum.
CREATE TABLE project_use (
    project text   NOT NULL,
    jobs    bigint NOT NULL,
    -- Of their payloads.
    bytes   bigint NOT NULL
);

CREATE INDEX project_use_project ON project_use (project);

-- Connections that count, by project.
CREATE INDEX connections_live ON connections (project) WHERE deleted_at IS NULL;

-- +goose Down
-- There is no way down: a schema is only ever replaced by a newer one.
SELECT 1;
