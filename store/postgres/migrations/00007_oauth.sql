-- Logins at platforms. What 00001 says of ids, times and numbers holds here too.

-- +goose Up

CREATE TABLE oauth_logins (
    -- Of the state, which nobody keeps.
    state        bytea       PRIMARY KEY CHECK (length(state) = 32),
    project      text        NOT NULL,
    actor        text        NOT NULL,
    app          text        NOT NULL,
    target       bytea       NOT NULL,
    key_id       text        NOT NULL,
    sealed       bytea       NOT NULL,
    redirect_url text        NOT NULL,
    return_url   text        NOT NULL,
    expires_at   timestamptz NOT NULL
);

CREATE INDEX oauth_logins_end ON oauth_logins (expires_at);
CREATE INDEX oauth_logins_project ON oauth_logins (project, expires_at);

-- Whose turn it is to renew a connection's tokens.
CREATE TABLE oauth_renewals (
    connection_id uuid        PRIMARY KEY REFERENCES connections (id),
    version       bigint      NOT NULL,
    owner         uuid,
    until         timestamptz NOT NULL,
    tries         bigint      NOT NULL CHECK (tries >= 0),
    begun_at      timestamptz,
    before_at     timestamptz
);

-- +goose Down
-- There is no way down: a schema is only ever replaced by a newer one.
SELECT 1;
