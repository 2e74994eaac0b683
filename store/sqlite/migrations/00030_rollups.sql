-- Counts of events in buckets of time. What 00001 says of ids, times and numbers holds
-- here too; those of widths, measures and bins are of store/rollup.go.

-- +goose Up

-- How far the log is counted, and when the last event was that is.
CREATE TABLE rollup_place (
    id       INTEGER PRIMARY KEY CHECK (id = 1),
    position INTEGER NOT NULL,
    at       INTEGER NOT NULL
) STRICT;

INSERT INTO rollup_place (id, position, at) VALUES (1, 0, 0);

-- Numbers, and nothing that a client wrote: they outlive the jobs that they count.
CREATE TABLE rollups (
    id            INTEGER PRIMARY KEY,
    project       TEXT    NOT NULL,
    -- Zero in the counts of the whole project.
    connection_id BLOB    NOT NULL,
    width         INTEGER NOT NULL,
    start_at      INTEGER NOT NULL,
    connector     TEXT    NOT NULL,
    class         INTEGER NOT NULL,
    measure       INTEGER NOT NULL,
    bin           INTEGER NOT NULL,
    count         INTEGER NOT NULL
) STRICT;

CREATE UNIQUE INDEX rollups_key ON rollups (project, connection_id, width, start_at, connector, class, measure, bin);
-- What is removed.
CREATE INDEX rollups_age ON rollups (width, start_at);

-- +goose Down
-- There is no way down: a schema is only ever replaced by a newer one.
SELECT 1;
