-- Schedules whose lost time is not settled.

-- +goose Up

-- When the database was released from a quarantine; NULL: nothing is open. See store.Schedule.HeldUntil.
ALTER TABLE schedules ADD COLUMN held_until INTEGER;

UPDATE schedules SET held_until = (SELECT released_at FROM meta WHERE id = 1)
WHERE state = 1 AND next_at <= (SELECT released_at FROM meta WHERE id = 1);

-- +goose Down
-- There is no way down: a schema is only ever replaced by a newer one.
SELECT 1;
