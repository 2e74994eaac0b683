-- A key is bound by its digest: the text goes with the job. The function is this
-- program's (keydigest.go).

-- +goose Up

CREATE TABLE job_keys_2 (
    -- See job.KeyDigest.
    digest     BLOB    PRIMARY KEY NOT NULL CHECK (length(digest) = 32),
    job_id     BLOB    NOT NULL CHECK (length(job_id) = 16),
    -- Set when the job is removed; NULL while it lives.
    kept_until INTEGER
) STRICT, WITHOUT ROWID;

INSERT INTO job_keys_2 (digest, job_id, kept_until)
SELECT fireonce_key_digest(project, idem_key), job_id, kept_until FROM job_keys;

DROP TABLE job_keys;
ALTER TABLE job_keys_2 RENAME TO job_keys;
CREATE INDEX job_keys_kept ON job_keys (kept_until) WHERE kept_until IS NOT NULL;

-- +goose Down
-- There is no way down: a schema is only ever replaced by a newer one.
SELECT 1;
