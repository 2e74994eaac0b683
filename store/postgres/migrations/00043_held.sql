-- Firings that may have taken place in a state of the database that was lost.

-- +goose Up

-- When it was last released from a quarantine; NULL: never.
ALTER TABLE meta ADD COLUMN released_at timestamptz;
ALTER TABLE schedules ADD COLUMN held bigint NOT NULL DEFAULT 0 CHECK (held >= 0);

-- +goose Down
-- There is no way down: a schema is only ever replaced by a newer one.
SELECT 1;
