-- Jobs of schedules that have not ended, apart by whether an outcome is unknown. The newest
-- of either kind is found however many there are.

-- +goose Up

DROP TABLE schedule_jobs;

CREATE TABLE schedule_jobs (
    schedule_id BLOB    NOT NULL,
    -- 1: job.State.Unresolved.
    unresolved  INTEGER NOT NULL CHECK (unresolved IN (0, 1)),
    job_id      BLOB    NOT NULL,
    PRIMARY KEY (schedule_id, unresolved, job_id)
) STRICT, WITHOUT ROWID;

INSERT INTO schedule_jobs (schedule_id, unresolved, job_id)
SELECT j.schedule_id, s.state IN (5, 7), j.id FROM jobs AS j JOIN job_state AS s ON s.job_id = j.id
WHERE j.schedule_id IS NOT NULL AND s.state < 8;

-- +goose Down
-- There is no way down: a schema is only ever replaced by a newer one.
SELECT 1;
