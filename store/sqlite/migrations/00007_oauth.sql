-- Logins at platforms. What 00001 says of ids, times and numbers holds here too.

-- +goose Up

CREATE TABLE oauth_logins (
    -- Of the state, which nobody keeps.
    state        BLOB    PRIMARY KEY NOT NULL CHECK (length(state) = 32),
    project      TEXT    NOT NULL,
    actor        TEXT    NOT NULL,
    app          TEXT    NOT NULL,
    target       BLOB    NOT NULL,
    key_id       TEXT    NOT NULL,
    sealed       BLOB    NOT NULL,
    redirect_url TEXT    NOT NULL,
    return_url   TEXT    NOT NULL,
    expires_at   INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE INDEX oauth_logins_end ON oauth_logins (expires_at);
CREATE INDEX oauth_logins_project ON oauth_logins (project, expires_at);

-- Whose turn it is to renew a connection's tokens.
CREATE TABLE oauth_renewals (
    connection_id BLOB    PRIMARY KEY NOT NULL REFERENCES connections (id),
    version       INTEGER NOT NULL,
    owner         BLOB,
    until         INTEGER NOT NULL,
    tries         INTEGER NOT NULL CHECK (tries >= 0),
    begun_at      INTEGER,
    before_at     INTEGER
) STRICT, WITHOUT ROWID;

-- +goose Down
-- There is no way down: a schema is only ever replaced by a newer one.
SELECT 1;
