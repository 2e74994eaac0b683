-- Cool-downs of connections and schedules (see store.CoolDown). What 00001 says of ids,
-- times and numbers holds here too.

-- +goose Up

-- 31 days at most. 0: none.
ALTER TABLE connections ADD COLUMN cool_down bigint NOT NULL DEFAULT 0 CHECK (cool_down BETWEEN 0 AND 2678400000000);

-- That of the job's schedule, as it was when the job was made.
ALTER TABLE jobs ADD COLUMN cool_down bigint NOT NULL DEFAULT 0 CHECK (cool_down BETWEEN 0 AND 2678400000000);

-- The last arm of each connection and schedule that has a cool-down. A row that only
-- stands to be locked is of no job, and of 1970.
CREATE TABLE cool_downs (
    owner    uuid        PRIMARY KEY,
    job_id   uuid        NOT NULL,
    armed_at timestamptz NOT NULL
);

-- +goose Down
-- There is no way down: a schema is only ever replaced by a newer one.
SELECT 1;
