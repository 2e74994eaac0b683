-- Why a credential holds its hold key, as a program reads it: job.AuthCause; 0: no hold.

-- +goose Up

ALTER TABLE connection_ready ADD COLUMN auth_hold_cause smallint NOT NULL DEFAULT 0;

-- All that is known of the holds that there are is that the credential was refused.
UPDATE connection_ready SET auth_hold_cause = 1 WHERE auth_hold_at IS NOT NULL;

ALTER TABLE connection_ready ADD CONSTRAINT auth_hold_has_its_cause
    CHECK (auth_hold_cause BETWEEN 0 AND 7 AND (auth_hold_at IS NULL) = (auth_hold_cause = 0));

-- +goose Down
-- There is no way down: a schema is only ever replaced by a newer one.
SELECT 1;
