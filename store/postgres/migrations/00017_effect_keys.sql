-- Effect keys that callers gave.

-- +goose Up

-- Of the job's present round; empty: derived.
ALTER TABLE jobs ADD COLUMN own_effect_key text NOT NULL DEFAULT '';

-- Each is used once at a receiver, whatever the project, and never again.
CREATE TABLE effect_keys (
    -- See job.EffectKeyDigest.
    digest bytea PRIMARY KEY CHECK (octet_length(digest) = 32),
    job_id uuid  NOT NULL
);

-- +goose Down
-- There is no way down: a schema is only ever replaced by a newer one.
SELECT 1;
