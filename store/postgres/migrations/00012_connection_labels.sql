-- Labels of connections, and the indexes of their list. What 00001 says of ids, times and
-- numbers holds here too.

-- +goose Up

ALTER TABLE connections ADD COLUMN labels jsonb NOT NULL DEFAULT '{}';

-- One row for each label of a connection, in the order of the list. The trigger below
-- keeps it in step with connections.labels; nothing else writes it.
CREATE TABLE connection_labels (
    project       text        NOT NULL,
    name          text        NOT NULL,
    value         text        NOT NULL,
    created_at    timestamptz NOT NULL,
    connection_id uuid        NOT NULL,
    PRIMARY KEY (project, name, value, created_at, connection_id)
);

-- +goose StatementBegin
CREATE FUNCTION label_connection() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'UPDATE' THEN
        DELETE FROM connection_labels AS c USING jsonb_each_text(OLD.labels) AS l
        WHERE c.project = OLD.project AND c.name = l.key AND c.value = l.value
            AND c.created_at = OLD.created_at AND c.connection_id = OLD.id;
    END IF;
    INSERT INTO connection_labels (project, name, value, created_at, connection_id)
    SELECT NEW.project, l.key, l.value, NEW.created_at, NEW.id FROM jsonb_each_text(NEW.labels) AS l;
    RETURN NULL;
END
$$;
-- +goose StatementEnd

CREATE TRIGGER connections_labeled AFTER INSERT ON connections FOR EACH ROW
    WHEN (NEW.labels <> '{}') EXECUTE FUNCTION label_connection();
CREATE TRIGGER connections_relabeled AFTER UPDATE OF labels ON connections FOR EACH ROW
    WHEN (NEW.labels <> OLD.labels) EXECUTE FUNCTION label_connection();

CREATE INDEX connections_connector ON connections (project, connector, created_at, id);
CREATE INDEX connections_account ON connections (project, account_identity, created_at, id) WHERE account_identity <> '';

-- The state of a connection depends on holds; most connections have none.
CREATE INDEX connection_ready_auth ON connection_ready (connection_id) WHERE auth_hold_at IS NOT NULL;
CREATE INDEX connection_ready_limited ON connection_ready (connection_id, rate_limited_until) WHERE rate_limited_until > 'epoch';

-- +goose Down
-- There is no way down: a schema is only ever replaced by a newer one.
SELECT 1;
