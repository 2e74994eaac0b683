-- Jobs of schedules that have not ended, apart by whether an outcome is unknown
-- (job.State.Unresolved). The newest of either kind is found however many there are.

-- +goose Up

DROP INDEX job_state_of_schedule;
CREATE INDEX job_state_under_way ON job_state (schedule_id, job_id)
    WHERE schedule_id IS NOT NULL AND ended_at IS NULL AND state NOT IN (5, 7);
CREATE INDEX job_state_unresolved ON job_state (schedule_id, job_id)
    WHERE schedule_id IS NOT NULL AND ended_at IS NULL AND state IN (5, 7);

-- +goose Down
-- There is no way down: a schema is only ever replaced by a newer one.
SELECT 1;
