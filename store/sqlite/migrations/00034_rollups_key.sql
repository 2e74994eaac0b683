-- Counts lie in the order that they are read and added to in, without a table beside it.

-- +goose Up

CREATE TABLE rollups_34 (
    project       TEXT    NOT NULL,
    -- Zero in the counts of the whole project.
    connection_id BLOB    NOT NULL,
    width         INTEGER NOT NULL,
    start_at      INTEGER NOT NULL,
    connector     TEXT    NOT NULL,
    class         INTEGER NOT NULL,
    measure       INTEGER NOT NULL,
    bin           INTEGER NOT NULL,
    count         INTEGER NOT NULL,
    PRIMARY KEY (project, connection_id, width, start_at, connector, class, measure, bin)
) STRICT, WITHOUT ROWID;

INSERT INTO rollups_34 (project, connection_id, width, start_at, connector, class, measure, bin, count)
SELECT project, connection_id, width, start_at, connector, class, measure, bin, count FROM rollups;

DROP TABLE rollups;
ALTER TABLE rollups_34 RENAME TO rollups;
-- What is removed.
CREATE INDEX rollups_age ON rollups (width, start_at);

-- +goose Down
-- There is no way down: a schema is only ever replaced by a newer one.
SELECT 1;
