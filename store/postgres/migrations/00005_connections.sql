-- Changes of connections. What 00001 says of ids, times and numbers holds here too.

-- +goose Up

-- A transaction that adds a ready row has locked the connection (KeepForNewRows) and read
-- it. If the connection was paused, resumed or deleted in between, the transaction runs
-- again. The lock has a later change wait for the transaction: it finds the row then.
-- +goose StatementBegin
CREATE FUNCTION ready_row_fits() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    fits boolean;
BEGIN
    SELECT deleted_at IS NULL AND (paused_at IS NOT NULL) = NEW.paused INTO fits
    FROM connections WHERE id = NEW.connection_id FOR KEY SHARE;
    IF NOT fits THEN
        RAISE EXCEPTION USING ERRCODE = 'serialization_failure', TABLE = TG_TABLE_NAME, CONSTRAINT = TG_NAME,
            MESSAGE = 'the connection was changed at the same time';
    END IF;
    RETURN NULL;
END
$$;
-- +goose StatementEnd

CREATE TRIGGER connection_ready_insert AFTER INSERT ON connection_ready FOR EACH ROW EXECUTE FUNCTION ready_row_fits();

-- +goose Down
-- There is no way down: a schema is only ever replaced by a newer one.
SELECT 1;
