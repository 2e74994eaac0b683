-- Why a credential holds its hold key, as a program reads it: job.AuthCause; 0: no hold.

-- +goose Up

-- The holds that there are have no cause yet, so that a trigger below asks for one.
ALTER TABLE connection_ready ADD COLUMN auth_hold_cause INTEGER NOT NULL DEFAULT 0
    CHECK (auth_hold_cause BETWEEN 0 AND 7 AND (auth_hold_cause = 0 OR auth_hold_at IS NOT NULL));

-- All that is known of them is that the credential was refused.
UPDATE connection_ready SET auth_hold_cause = 1 WHERE auth_hold_at IS NOT NULL;

-- +goose StatementBegin
CREATE TRIGGER auth_hold_has_its_cause BEFORE UPDATE OF auth_hold_at, auth_hold_cause ON connection_ready
WHEN NEW.auth_hold_at IS NOT NULL AND NEW.auth_hold_cause = 0
BEGIN
    SELECT RAISE(ABORT, 'an auth hold has a cause');
END;
-- +goose StatementEnd

-- +goose Down
-- There is no way down: a schema is only ever replaced by a newer one.
SELECT 1;
