-- What targets answered. What 00001 says of ids, times and numbers holds here too.

-- +goose Up

-- What the connection keeps of the answer to an attempt (internal/job.Answer); NULL:
-- nothing.
ALTER TABLE attempts ADD COLUMN answer BLOB;

-- +goose Down
-- There is no way down: a schema is only ever replaced by a newer one.
SELECT 1;
