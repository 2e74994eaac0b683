-- Effect keys that callers gave.

-- +goose Up

-- Of the job's present round; empty: derived.
ALTER TABLE jobs ADD COLUMN own_effect_key TEXT NOT NULL DEFAULT '';

-- Each is used once at a receiver, whatever the project, and never again.
CREATE TABLE effect_keys (
    -- See job.EffectKeyDigest.
    digest BLOB PRIMARY KEY NOT NULL CHECK (length(digest) = 32),
    job_id BLOB NOT NULL CHECK (length(job_id) = 16)
) STRICT, WITHOUT ROWID;

-- +goose Down
-- There is no way down: a schema is only ever replaced by a newer one.
SELECT 1;
