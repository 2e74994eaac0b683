-- Plans: changes of many jobs.

-- name: InsertPlan :exec
INSERT INTO plans (
    id, project, op, ruling, override, pace, incident, note, created_by, state, pages, jobs, planned, incarnation, cut, created_at
) VALUES (
    @id, @project, @op, @ruling, @override, @pace, @incident, @note, @created_by, 1, @pages, @jobs, @planned, @incarnation, @cut, @created_at
);

-- name: InsertPlanPage :batchexec
INSERT INTO plan_pages (plan_id, number, items) VALUES (@plan_id, @number, @items);

-- name: DropPlans :exec
-- Dry plans that are old, or more than a project may have with one more, and plans that are done.
DELETE FROM plans WHERE id IN (
    SELECT o.id FROM plans AS o
    WHERE o.project = @project
        AND (o.state = 1 AND o.created_at < @dry_before::timestamptz OR o.state = 3 AND o.ended_at < @done_before::timestamptz)
    UNION ALL
    SELECT d.id FROM (
        SELECT m.id FROM plans AS m WHERE m.project = @project AND m.state = 1
        ORDER BY m.created_at DESC, m.id DESC LIMIT 1000 OFFSET @most_dry
    ) AS d
);

-- name: GetPlan :one
SELECT * FROM plans WHERE id = @id;

-- name: LockPlan :one
SELECT * FROM plans WHERE id = @id FOR UPDATE;

-- name: ListPlans :many
SELECT * FROM plans WHERE project = @project ORDER BY created_at DESC, id DESC LIMIT @max_rows;

-- name: RunningPlans :many
SELECT * FROM plans
WHERE state = 2 AND incarnation = @incarnation AND advanced_at <= @before::timestamptz ORDER BY advanced_at, id LIMIT @max_rows;

-- name: GetPlanPage :one
SELECT items, finished FROM plan_pages WHERE plan_id = @plan_id AND number = @number;

-- name: StartPlan :exec
UPDATE plans SET state = 2, started_by = @actor, started_at = @now::timestamptz, advanced_at = @now WHERE id = @id;

-- name: FinishPlanPage :exec
UPDATE plan_pages SET finished = true, items = @items WHERE plan_id = @plan_id AND number = @number;

-- name: UnfinishedPages :one
SELECT count(*) FROM plan_pages WHERE plan_id = @plan_id AND NOT finished;

-- name: AdvancePlan :exec
UPDATE plans SET changed = changed + @changed::bigint, left_out = left_out + @left_out::bigint, advanced_at = @now::timestamptz WHERE id = @id;

-- name: EndPlan :exec
UPDATE plans SET state = 3, ended_at = @now::timestamptz WHERE id = @id;

-- name: RemovePlans :execrows
DELETE FROM plans WHERE project = @project;
