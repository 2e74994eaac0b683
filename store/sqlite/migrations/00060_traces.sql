-- Traces of which jobs and attempts are a part. What 00001 says of ids, times and numbers
-- holds here too.

-- +goose Up

-- The trace context that the job was submitted in (job.Spec.Trace); NULL: none.
ALTER TABLE jobs ADD COLUMN trace TEXT CHECK (length(trace) BETWEEN 55 AND 568);

-- The span of the request to the target (job.Span): 16 bytes of trace and 8 of the span;
-- NULL: none.
ALTER TABLE attempts ADD COLUMN span BLOB CHECK (length(span) = 24);

-- +goose Down
-- There is no way down: a schema is only ever replaced by a newer one.
SELECT 1;
