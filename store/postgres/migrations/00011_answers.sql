-- What targets answered. What 00001 says of ids, times and numbers holds here too.

-- +goose Up

-- What the connection keeps of the answer to an attempt (internal/job.Answer); NULL:
-- nothing.
ALTER TABLE attempts ADD COLUMN answer bytea;

-- +goose Down
SELECT 1;
