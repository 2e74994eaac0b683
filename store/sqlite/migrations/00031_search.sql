-- What jobs are searched by. What 00001 says of ids, times and numbers holds here too.

-- +goose Up

-- Whom a job's payload addresses: e-mail addresses in lower case, ids of direct messages
-- as they are (see store.NewJob). These are personal data: whatever erases a payload
-- erases them. They go with their job's row, and a new payload replaces them.
CREATE TABLE job_recipients (
    job_id    BLOB NOT NULL REFERENCES jobs (id) ON DELETE CASCADE,
    project   TEXT NOT NULL,
    recipient TEXT NOT NULL,
    PRIMARY KEY (job_id, recipient)
) STRICT, WITHOUT ROWID;

CREATE INDEX job_recipients_who ON job_recipients (project, recipient, job_id);

-- Keys by their beginning.
CREATE INDEX jobs_key ON jobs (project, idem_key);
-- Most jobs have no error, and most effects no name.
CREATE INDEX job_state_error ON job_state (project, error_kind) WHERE error_kind > 0;
CREATE INDEX effects_external ON effects (external_id) WHERE external_id <> '';

-- +goose Down
-- There is no way down: a schema is only ever replaced by a newer one.
SELECT 1;
