-- The installation's namespace, which is part of every effect key.

-- +goose Up

ALTER TABLE meta ADD COLUMN namespace text NOT NULL DEFAULT '';
-- Set once an attempt was removed: until then the attempts themselves tell that something
-- was armed.
ALTER TABLE meta ADD COLUMN armed_before boolean NOT NULL DEFAULT false;

-- +goose StatementBegin
CREATE FUNCTION note_armed_before() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NOT (SELECT m.armed_before FROM meta AS m WHERE m.id = 1) AND EXISTS (SELECT 1 FROM removed) THEN
        UPDATE meta SET armed_before = true WHERE id = 1;
    END IF;
    RETURN NULL;
END
$$;
-- +goose StatementEnd

CREATE TRIGGER attempts_removed AFTER DELETE ON attempts REFERENCING OLD TABLE AS removed
    FOR EACH STATEMENT EXECUTE FUNCTION note_armed_before();

-- +goose Down
-- There is no way down: a schema is only ever replaced by a newer one.
SELECT 1;
