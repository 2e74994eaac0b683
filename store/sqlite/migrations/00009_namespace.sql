-- The installation's namespace, which is part of every effect key.

-- +goose Up

ALTER TABLE meta ADD COLUMN namespace TEXT NOT NULL DEFAULT '';
-- 1 once an attempt was removed: until then the attempts themselves tell that something
-- was armed.
ALTER TABLE meta ADD COLUMN armed_before INTEGER NOT NULL DEFAULT 0 CHECK (armed_before IN (0, 1));

-- +goose StatementBegin
CREATE TRIGGER attempts_removed AFTER DELETE ON attempts
WHEN (SELECT armed_before FROM meta WHERE id = 1) = 0
BEGIN
    UPDATE meta SET armed_before = 1 WHERE id = 1;
END;
-- +goose StatementEnd

-- +goose Down
-- There is no way down: a schema is only ever replaced by a newer one.
SELECT 1;
