package sqlstore

import (
	"context"
	"fmt"
	"strings"

	"github.com/fireonce/fireonce/gen/shareddb"
	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/store"
)

// Rules of this file: each part of a statement walks one index in its order, and only as many
// rows as the query allows; all else is read of the rows that are left. The texts are put
// together at run time, because the columns are the same for every kind of trouble.

// troubleRow are the columns of job_state that a walk takes along.
const troubleRow = `s.job_id, s.version, s.state, s.connection_id, s.hold_key, s.class, s.looks, s.next_at, s.fence_at, s.updated_at, s.ended_at,
	s.error_kind, s.error_status, s.attempt, s.armed_round, s.result, s.failure_kind /* SQLite: s.kind */ AS kind, s.http_status, s.armed_at, s.waits_for, s.resolution_id`

// troubleWalks are the parts of a walk: each selects rows that %[1]s reads, at most %[2]d.
var troubleWalks = map[store.TroubleKind][]string{
	store.TroubleUnknown: {
		"SELECT %[1]s FROM job_state AS s WHERE s.project = $1::text AND s.state /* SQLite: s.listed */ = 7 ORDER BY s.schedule_time, s.job_id LIMIT %[2]d",
		"SELECT %[1]s FROM job_state AS s WHERE s.project = $1::text AND s.state /* SQLite: s.listed */ = 5 ORDER BY s.schedule_time, s.job_id LIMIT %[2]d",
	},
	store.TroubleFailed: {
		"SELECT %[1]s FROM job_state AS s WHERE s.project = $1::text AND s.state = 9 AND s.ended_at IS NOT NULL AND s.ended_at >= $2::timestamptz ORDER BY s.ended_at DESC, s.job_id DESC LIMIT %[2]d",
		"SELECT %[1]s FROM job_state AS s WHERE s.project = $1::text AND s.state = 11 AND s.ended_at IS NOT NULL AND s.ended_at >= $2::timestamptz ORDER BY s.ended_at DESC, s.job_id DESC LIMIT %[2]d",
	},
	store.TroubleWaiting: {
		"SELECT %[1]s FROM job_state AS s WHERE s.project = $1::text AND s.state /* SQLite: s.listed */ = 1 AND s.schedule_time <= $3::timestamptz ORDER BY s.schedule_time, s.job_id LIMIT %[2]d",
		"SELECT %[1]s FROM job_state AS s WHERE s.project = $1::text AND s.state /* SQLite: s.listed */ = 6 AND s.schedule_time <= $3::timestamptz ORDER BY s.schedule_time, s.job_id LIMIT %[2]d",
	},
}

// oneTrouble is the walk of a query of one job.
var oneTrouble = []string{"SELECT %[1]s FROM job_state AS s WHERE s.project = $1::text AND s.job_id = $4::uuid LIMIT %[2]d"}

// walksOf are the parts of a query's walk.
func walksOf(q store.TroubleQuery) []string {
	if !q.Job.IsZero() {
		return oneTrouble
	}
	return troubleWalks[q.Kind]
}

// troubleParams begins a statement with the types of all parameters, whichever it uses: the
// project, since when, the present, and one job.
const troubleParams = "WITH params AS (SELECT $1::text, $2::timestamptz, $3::timestamptz, $4::uuid) "

// troubleText is a statement that reads the jobs in a kind of trouble.
func troubleText(q store.TroubleQuery) string {
	// The first attempt that matters, and the attempts whose results do.
	first, results := "true", "true"
	cond := "s.state IN (9, 11)"
	switch q.Kind {
	case store.TroubleUnknown:
		first, results, cond = "a.result IN (0, 4, 5)", "a.round = s.armed_round", "s.state IN (5, 7)"
	case store.TroubleWaiting:
		first, results, cond = "false", "false", "s.state IN (1, 6) AND s.waits_for IS NULL AND s.next_at <= $3::timestamptz"
	case store.TroubleFailed:
	}
	var parts []string
	for i, walk := range walksOf(q) {
		parts = append(parts, fmt.Sprintf("SELECT * FROM ("+walk+") AS w%[3]d", troubleRow, q.Walked(), i))
	}
	return troubleParams + fmt.Sprintf(`SELECT s.job_id, s.version, s.state, s.connection_id, s.hold_key, s.class, s.looks, s.next_at, s.fence_at, s.updated_at, s.ended_at,
		s.error_kind, s.error_status, coalesce(s.result, 0), coalesce(s.kind, 0), coalesce(s.http_status, 0), s.attempt, s.armed_at,
		coalesce(f.number, 0), coalesce(f.kind, 0), coalesce(f.http_status, 0),
		(SELECT min(a.armed_at) FROM attempts AS a WHERE a.job_id = s.job_id AND a.round = s.armed_round),
		(SELECT count(*) FROM attempts AS a WHERE a.job_id = s.job_id AND a.round = s.armed_round),
		(SELECT coalesce(sum(DISTINCT (1 << a.result::int)), 0) FROM attempts AS a WHERE a.job_id = s.job_id AND %[2]s),
		(SELECT coalesce(sum(DISTINCT (1 << o.verdict::int)), 0) FROM observations AS o
			WHERE o.job_id = s.job_id AND o.attempt > 0 AND o.attempt >= coalesce(f.number, s.attempt)),
		coalesce(l.verdict, 0), l.ended_at, r.auth_hold_at, coalesce(r.auth_hold_cause, 0), r.rate_limited_until, c.paused_at,
		coalesce(q.ruling, 0), q.at
	FROM (%[3]s) AS s
	LEFT JOIN attempts AS f ON f.job_id = s.job_id AND f.number = (
		SELECT min(a.number) FROM attempts AS a WHERE a.job_id = s.job_id AND a.round = s.armed_round AND %[1]s)
	LEFT JOIN observations AS l ON l.id = (SELECT max(o.id) FROM observations AS o WHERE o.job_id = s.job_id)
	LEFT JOIN connection_ready AS r ON r.connection_id = s.connection_id AND r.hold_key = s.hold_key
	LEFT JOIN resolutions AS q ON q.id = s.resolution_id
	LEFT JOIN connections AS c ON c.id = s.connection_id
	WHERE %[4]s`, first, results, strings.Join(parts, " UNION ALL "), cond)
}

// walked counts the jobs that the parts of a walk have.
func (v View) walked(ctx context.Context, q store.TroubleQuery, args []any) (more bool, err error) {
	var counts []string
	for i, walk := range walksOf(q) {
		counts = append(counts, fmt.Sprintf("SELECT count(*) FROM ("+walk+") AS w%[3]d", "s.job_id", q.Walked(), i))
	}
	rows, err := v.DB.Query(ctx, troubleParams+strings.Join(counts, " UNION ALL "), args...)
	if err != nil {
		return false, err
	}
	defer rows.Close()
	for rows.Next() {
		var n int
		if err := rows.Scan(&n); err != nil {
			return false, err
		}
		more = more || n >= q.Walked()
	}
	return more, rows.Err()
}

// Troubles implements store.Store.
func (r *Roles) Troubles(ctx context.Context, q store.TroubleQuery) (store.TroublePage, error) {
	return read(ctx, r, "troubles", func(ctx context.Context, v View) (store.TroublePage, error) {
		out := store.TroublePage{Now: v.Now}
		if troubleWalks[q.Kind] == nil {
			return out, fmt.Errorf("%w: trouble of kind %d", store.ErrIllegal, q.Kind)
		}
		if err := v.BoundPlans(ctx); err != nil {
			return out, err
		}
		args := func() []any { return []any{q.Project, q.From(), v.Now, q.Job} }
		var err error
		if out.More, err = v.walked(ctx, q, args()); err != nil {
			return out, err
		}
		rows, err := v.DB.Query(ctx, troubleText(q), args()...)
		if err != nil {
			return out, err
		}
		defer rows.Close()
		texts := make(map[string]string)
		for rows.Next() {
			f, err := scanTrouble(rows)
			if err != nil {
				return out, err
			}
			t := f.Of(q.Kind, v.Now)
			t.HoldKey = shared(texts, t.HoldKey)
			out.Jobs = append(out.Jobs, t)
		}
		return out, rows.Err()
	})
}

// shared returns one copy of equal texts: the jobs of one receiver share theirs.
func shared(texts map[string]string, text string) string {
	if one, ok := texts[text]; ok {
		return one
	}
	texts[text] = text
	return text
}

// scanTrouble reads a row of troubleText.
func scanTrouble(rows interface{ Scan(...any) error }) (store.TroubleFacts, error) {
	var f store.TroubleFacts
	var verdict, results, seen, auth, ruling int
	err := rows.Scan(&f.Job, &f.Version, &f.State, &f.Connection, &f.HoldKey, &f.Class, &f.Looks, &f.NextAt, &f.Fence, &f.Updated, &f.Ended,
		&f.Last.Kind, &f.Last.HTTPStatus, &f.NewestResult, &f.NewestCause.Kind, &f.NewestCause.HTTPStatus, &f.Newest, &f.NewestArmed,
		&f.FirstNumber, &f.FirstCause.Kind, &f.FirstCause.HTTPStatus, &f.EarlierArmed, &f.Earlier, &results, &seen,
		&verdict, &f.SeenAt, &f.AuthAt, &auth, &f.LimitedUntil, &f.Paused, &ruling, &f.RuledAt)
	f.Results, f.Seen = store.Results(results), store.Verdicts(seen)
	f.SeenLast, f.Cause, f.Ruling = job.Verdict(verdict), job.AuthCause(auth), job.Ruling(ruling)
	return f, err
}

// Unproven implements store.Store.
func (r *Roles) Unproven(ctx context.Context, q store.TroubleQuery) (store.TroublePage, error) {
	return read(ctx, r, "unproven", func(ctx context.Context, v View) (store.TroublePage, error) {
		out := store.TroublePage{Now: v.Now}
		if err := v.BoundPlans(ctx); err != nil {
			return out, err
		}
		limit := q.Walked()
		rows, err := v.Q.UnprovenEffects(ctx, shareddb.UnprovenEffectsParams{
			Since: q.From(), MaxRows: int32(limit),
			Project: q.Project,
		})
		if err != nil {
			return out, err
		}
		texts := make(map[string]string)
		for _, row := range rows {
			out.Jobs = append(out.Jobs, store.Trouble{
				Job: row.JobID, Version: row.Version, State: row.State, Connection: row.ConnectionID, HoldKey: shared(texts, row.HoldKey),
				Class: row.Class, Since: row.At, Proof: row.Proof,
			})
		}
		n, err := v.Q.CountUnproven(ctx, shareddb.CountUnprovenParams{Since: q.From(), MaxRows: int32(limit)})
		out.More = n >= int64(limit)
		out.NewestFirst()
		return out, err
	})
}
