-- Counts of events in buckets of time. What 00001 says of ids, times and numbers holds
-- here too; those of widths, measures and bins are of store/rollup.go.

-- +goose Up

-- How far the log is counted, when the last event was that is, and which server counts.
CREATE TABLE rollup_place (
    id          smallint    PRIMARY KEY CHECK (id = 1),
    position    bigint      NOT NULL DEFAULT 0,
    at          timestamptz NOT NULL DEFAULT 'epoch',
    owner       uuid,
    lease_until timestamptz NOT NULL DEFAULT 'epoch'
);

INSERT INTO rollup_place (id) VALUES (1);

-- Numbers, and nothing that a client wrote: they outlive the jobs that they count.
CREATE TABLE rollups (
    project       text        NOT NULL,
    -- Zero in the counts of the whole project.
    connection_id uuid        NOT NULL,
    width         smallint    NOT NULL,
    start_at      timestamptz NOT NULL,
    connector     text        NOT NULL,
    class         smallint    NOT NULL,
    measure       smallint    NOT NULL,
    bin           smallint    NOT NULL,
    count         bigint      NOT NULL,
    PRIMARY KEY (project, connection_id, width, start_at, connector, class, measure, bin)
)
-- The newest buckets are written again and again.
WITH (fillfactor = 70);

-- What is removed.
CREATE INDEX rollups_age ON rollups (width, start_at);

-- +goose Down
SELECT 1;
