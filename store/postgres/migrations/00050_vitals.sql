-- What an operator watches over all projects (see store.Vitals). What 00001 says of ids,
-- times and numbers holds here too.

-- +goose Up

-- Unknown outcomes; there are few.
CREATE INDEX job_state_unknown ON job_state (state, updated_at) WHERE state IN (5, 7);
CREATE INDEX connections_paused ON connections (connector) WHERE paused_at IS NOT NULL AND deleted_at IS NULL;

-- +goose Down
-- There is no way down: a schema is only ever replaced by a newer one.
SELECT 1;
