-- Cool-downs of connections and schedules (see store.CoolDown). What 00001 says of ids,
-- times and numbers holds here too.

-- +goose Up

-- 31 days at most. 0: none.
ALTER TABLE connections ADD COLUMN cool_down INTEGER NOT NULL DEFAULT 0 CHECK (cool_down BETWEEN 0 AND 2678400000000);

-- That of the job's schedule, as it was when the job was made.
ALTER TABLE jobs ADD COLUMN cool_down INTEGER NOT NULL DEFAULT 0 CHECK (cool_down BETWEEN 0 AND 2678400000000);

-- The last arm of each connection and schedule that has a cool-down.
CREATE TABLE cool_downs (
    owner    BLOB    PRIMARY KEY NOT NULL CHECK (length(owner) = 16),
    job_id   BLOB    NOT NULL CHECK (length(job_id) = 16),
    armed_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- +goose Down
-- There is no way down: a schema is only ever replaced by a newer one.
SELECT 1;
