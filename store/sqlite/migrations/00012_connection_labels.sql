-- Labels of connections, and the indexes of their list. What 00001 says of ids, times and
-- numbers holds here too.

-- +goose Up

ALTER TABLE connections ADD COLUMN labels TEXT NOT NULL DEFAULT '{}' CHECK (json_valid(labels));

-- One row for each label of a connection, in the order of the list. Whoever writes
-- connections.labels writes these, too (see connection_list.go).
CREATE TABLE connection_labels (
    project       TEXT    NOT NULL,
    name          TEXT    NOT NULL,
    value         TEXT    NOT NULL,
    created_at    INTEGER NOT NULL,
    connection_id BLOB    NOT NULL,
    PRIMARY KEY (project, name, value, created_at, connection_id)
) STRICT, WITHOUT ROWID;

CREATE INDEX connections_connector ON connections (project, connector, created_at, id);
CREATE INDEX connections_account ON connections (project, account_identity, created_at, id) WHERE account_identity <> '';

-- The state of a connection depends on holds; most connections have none.
CREATE INDEX connection_ready_auth ON connection_ready (connection_id) WHERE auth_hold_at IS NOT NULL;
CREATE INDEX connection_ready_limited ON connection_ready (connection_id, rate_limited_until) WHERE rate_limited_until > 0;

-- +goose Down
-- There is no way down: a schema is only ever replaced by a newer one.
SELECT 1;
