-- A key is bound by its digest: the text goes with the job.

-- +goose Up

-- See job.KeyDigest.
-- +goose StatementBegin
CREATE FUNCTION key_part(part text) RETURNS bytea LANGUAGE sql IMMUTABLE
RETURN int4send(octet_length(convert_to(part, 'UTF8'))) || convert_to(part, 'UTF8');
-- +goose StatementEnd

ALTER TABLE job_keys ADD COLUMN digest bytea;
UPDATE job_keys SET digest = sha256(key_part('fireonce idempotency key 1') || key_part(project) || key_part(idem_key));
ALTER TABLE job_keys DROP COLUMN project, DROP COLUMN idem_key, ADD PRIMARY KEY (digest);
DROP FUNCTION key_part(text);
-- No index bounds the text any more.
ALTER TABLE jobs ADD CHECK (octet_length(idem_key) <= 255);

-- +goose Down
-- There is no way down: a schema is only ever replaced by a newer one.
SELECT 1;
