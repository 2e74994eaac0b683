-- Jobs that are not wanted if their content is there (see job.AlreadyPresent). What 00001
-- says of ids, times and numbers holds here too.

-- +goose Up

-- One more cause and one more kind of failure. SQLite changes no CHECK of a table that is
-- there, and to write events and states anew would take as long as there are many. A wider
-- bound is no other format: every row passes it. ALTER TABLE below tells other sessions.
PRAGMA writable_schema = ON;
UPDATE sqlite_schema SET sql = replace(sql, 'CHECK (cause BETWEEN 1 AND 23)', 'CHECK (cause BETWEEN 1 AND 24)')
WHERE type = 'table' AND name = 'events';
UPDATE sqlite_schema SET sql = replace(sql, 'CHECK (error_kind BETWEEN 0 AND 10)', 'CHECK (error_kind BETWEEN 0 AND 11)')
WHERE type = 'table' AND name = 'job_state';
PRAGMA writable_schema = RESET;

-- 30 days at most. 0: the content is not looked for.
ALTER TABLE jobs ADD COLUMN skip_if_present INTEGER NOT NULL DEFAULT 0 CHECK (skip_if_present BETWEEN 0 AND 2592000000000);

-- +goose Down
-- There is no way down: a schema is only ever replaced by a newer one.
SELECT 1;
