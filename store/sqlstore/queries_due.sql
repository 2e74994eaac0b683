-- What is due, and jobs whose sender may be gone.

-- name: Workers :many
-- The workers that claimed or armed the jobs under way.
SELECT DISTINCT worker FROM job_state WHERE state IN (2, 3);

-- name: WorkByWorker :many
-- Their jobs under way: how many, when they got the last one, and when the last lease or fence ends.
SELECT worker,
    sum(CASE WHEN state = 2 THEN 1 ELSE 0 END)::bigint AS claimed,
    sum(CASE WHEN state = 3 THEN 1 ELSE 0 END)::bigint AS sending,
    max(CASE WHEN state = 2 THEN claimed_at ELSE armed_at END)::timestamptz AS seen_at,
    max(next_at)::timestamptz AS takeover_at
FROM job_state WHERE state IN (2, 3) GROUP BY worker ORDER BY worker LIMIT @max_rows;

-- name: Servers :many
-- The newest, should there be too many.
SELECT worker, version, host, pid, started_at, draining FROM servers ORDER BY started_at DESC, worker LIMIT @max_rows;

-- name: PutServer :exec
INSERT INTO servers (worker, version, host, pid, started_at) VALUES (@worker, @version, @host, @pid, @started_at)
ON CONFLICT (worker) DO NOTHING;

-- name: DrainServer :exec
UPDATE servers SET draining = TRUE WHERE worker = @worker;

-- name: ForgetServers :exec
-- Removes what is known of servers that have ended, but for those that left jobs under way.
DELETE FROM servers WHERE worker = ANY (@workers::text[])
    AND NOT EXISTS (SELECT 1 FROM job_state AS s WHERE s.state IN (2, 3) AND s.worker = servers.worker);

-- name: OrphanIDs :many
-- Class 1 is KEYED.
SELECT job_id FROM job_state
WHERE state IN (2, 3) AND worker = ANY (@workers::text[])
    AND CASE WHEN state = 2 THEN claims = 0 ELSE class = 1 AND cancel_asked_at IS NULL END
    AND (next_at, job_id) > (@after_at::timestamptz, @after_id::uuid)
ORDER BY next_at, job_id LIMIT @max_rows;

-- name: OverdueIDs :many
-- Jobs under way that are past their lease or their fence, or claimed and past their window;
-- or only those past their fence. SQLite has claimed ones past their window in WindowOverIDs.
SELECT job_id FROM job_state
WHERE state IN (2, 3) AND (state = 3 OR NOT @only_fences::boolean)
    AND (CASE WHEN state = 2 THEN least(next_at, start_deadline) ELSE next_at END) /* SQLite: next_at */ <= @now::timestamptz
ORDER BY (CASE WHEN state = 2 THEN least(next_at, start_deadline) ELSE next_at END) /* SQLite: next_at */ LIMIT @max_rows;

-- name: WindowOverIDs :many
SELECT job_id FROM job_state
WHERE state /* SQLite: listed IN (1, 6) AND state */ IN (1 /* SQLite: 1, 2 */, 6) AND start_deadline <= @now AND start_deadline < 'infinity'
ORDER BY start_deadline LIMIT @max_rows;

-- name: LeftBehindIDs :many
SELECT job_id FROM job_state WHERE predecessor_end > 0 AND state IN (1, 6) ORDER BY updated_at LIMIT @max_rows;

-- name: DoubtfulIDs :many
-- A claimed job was due when it was claimed. A notice (job.NoticeProject) is never in doubt: it may be sent twice.
SELECT d.job_id FROM (
    SELECT w.job_id, w.start_deadline FROM (
        SELECT s.job_id, s.start_deadline FROM job_state AS s
        WHERE s.state /* SQLite: s.listed IN (1, 6) AND s.state */ IN (1, 6) AND s.start_deadline > @since
            AND s.start_deadline < 'infinity' AND s.next_at <= @now AND s.project NOT LIKE '%/notices'
        ORDER BY s.start_deadline LIMIT @max_rows
    ) AS w
    UNION ALL
    SELECT s.job_id, s.start_deadline FROM job_state AS s
    WHERE s.state /* SQLite: s.listed IN (1, 6) AND s.state */ IN (2, 3) AND s.state = 2 AND s.start_deadline > @since
        AND s.project NOT LIKE '%/notices'
) AS d ORDER BY d.start_deadline, d.job_id LIMIT @max_rows;

-- name: NextDue :one
-- When a fence, a window, a runnable row, a look or a job that was left behind is due; at the
-- latest: then there is none before.
SELECT least(
    @latest::timestamptz,
    coalesce((SELECT (CASE WHEN s.state = 2 THEN least(s.next_at, s.start_deadline) ELSE s.next_at END) /* SQLite: s.next_at */
        FROM job_state AS s WHERE s.state IN (2, 3)
        ORDER BY (CASE WHEN s.state = 2 THEN least(s.next_at, s.start_deadline) ELSE s.next_at END) /* SQLite: s.next_at */ LIMIT 1), @latest),
    coalesce((SELECT s.start_deadline FROM job_state AS s
        WHERE s.state /* SQLite: s.listed IN (1, 6) AND s.state */ IN (1 /* SQLite: 1, 2 */, 6) AND s.start_deadline < 'infinity'
        ORDER BY s.start_deadline LIMIT 1), @latest),
    coalesce((SELECT r.runnable_at FROM connection_ready AS r WHERE r.runnable_at IS NOT NULL ORDER BY r.runnable_at LIMIT 1), @latest),
    coalesce((SELECT s.next_at FROM job_state AS s WHERE s.state IN (4, 5) ORDER BY s.next_at LIMIT 1), @latest),
    coalesce((SELECT s.updated_at FROM job_state AS s WHERE s.predecessor_end > 0 AND s.state IN (1, 6)
        ORDER BY s.updated_at LIMIT 1), @latest)
)::timestamptz AS at;

-- name: DueLooks :many
-- Looks that no other transaction leases or writes at this moment.
SELECT job_id FROM job_state WHERE state IN (4, 5) AND next_at <= @now
ORDER BY next_at LIMIT @max_rows FOR NO KEY UPDATE SKIP LOCKED;

-- name: LeaseLooks :exec
UPDATE /* SQLite: UPDATE OR FAIL */ job_state SET
    claim_token = gen_random_uuid() /* SQLite: randomblob(16) */, claimed_at = @now, worker = @worker, next_at = @lease_end
WHERE job_id = ANY (@ids::uuid[]);

-- name: ReplyIDs :many
SELECT job_id, external_id FROM effects WHERE job_id = ANY (@ids::uuid[]);
