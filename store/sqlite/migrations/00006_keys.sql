-- API keys. What 00001 says of ids, times and numbers holds here too.

-- +goose Up

CREATE TABLE api_keys (
    id           TEXT    PRIMARY KEY NOT NULL CHECK (id <> ''),
    project      TEXT    NOT NULL REFERENCES projects (id),
    name         TEXT    NOT NULL,
    -- Of the key itself, which nobody keeps.
    hash         BLOB    NOT NULL CHECK (length(hash) = 32),
    -- Separated by spaces.
    scopes       TEXT    NOT NULL,
    created_at   INTEGER NOT NULL,
    expires_at   INTEGER,
    last_used_at INTEGER,
    revoked_at   INTEGER
) STRICT, WITHOUT ROWID;

-- A live key's name is looked for when another one is made.
CREATE INDEX api_keys_name ON api_keys (project, name) WHERE revoked_at IS NULL AND name <> '';
-- Keys that may be live, by project.
CREATE INDEX api_keys_project ON api_keys (project) WHERE revoked_at IS NULL;

-- +goose Down
-- There is no way down: a schema is only ever replaced by a newer one.
SELECT 1;
