package sqlstore

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/store"
)

// Count implements store.Store.
func (r *Roles) Count(ctx context.Context, q store.JobQuery, by store.GroupBy) (store.JobCounts, error) {
	return read(ctx, r, "count", func(ctx context.Context, v View) (store.JobCounts, error) {
		q.Order, q.AfterTime = store.ByScheduledDesc, time.Time{}
		c := jobCounter{View: v, by: by, groups: make(map[store.JobGroup]int64)}
		c.out = store.JobCounts{Now: v.Now, States: make(map[job.State]store.StateCount)}
		var err error
		if c.listing, err = newListing(q, v); err != nil {
			return c.out, err
		}
		if groupColumns[by] == "" {
			return c.out, fmt.Errorf("%w: group by %d", store.ErrIllegal, by)
		}
		source, err := v.candidates(ctx, c.listing)
		for _, state := range q.CountedStates() {
			c.out.States[state] = store.StateCount{}
			if err == nil && source == "" {
				err = c.state(ctx, state)
			}
		}
		if err == nil && source != "" {
			_, err = c.add(ctx, c.listing.among(source, "s.state, "+groupColumns[by]+", count(*), count(*)", "GROUP BY 1, 2, 3, 4"))
		}
		for g, n := range c.groups {
			g.Count = n
			c.out.Groups = append(c.out.Groups, g)
		}
		c.out.Groups = store.LargestGroups(c.out.Groups)
		return c.out, err
	})
}

// groupColumns are the connection, the class and the kind of error by which jobs are grouped.
var groupColumns = map[store.GroupBy]string{
	store.ByNothing:    "NULL::uuid AS g1, 0::smallint AS g2, 0::smallint AS g3",
	store.ByConnection: "s.connection_id AS g1, 0::smallint AS g2, 0::smallint AS g3",
	store.ByClass:      "NULL::uuid AS g1, s.class AS g2, 0::smallint AS g3",
	store.ByErrorKind:  "NULL::uuid AS g1, 0::smallint AS g2, s.error_kind AS g3",
}

// jobCounter is a count under way.
type jobCounter struct {
	View
	*listing
	by     store.GroupBy
	out    store.JobCounts
	groups map[store.JobGroup]int64
}

// state counts the jobs of a state that its part of the index has.
func (c *jobCounter) state(ctx context.Context, state job.State) error {
	p, most, rest := partOf(state), store.CountLooked, "true"
	if len(c.rest) > 0 {
		rest = strings.Join(c.rest, " AND ")
	} else if c.by == store.ByNothing {
		most = store.CountIndexed
	}
	looked, err := c.add(ctx, fmt.Sprintf(`%s SELECT %d::smallint, g1, g2, g3, count(*) FILTER (WHERE hit), count(*) FROM (
		SELECT %s, (%s) IS TRUE AS hit FROM %s%s WHERE %s AND %s LIMIT %d) AS w GROUP BY g1, g2, g3`,
		c.with(), state, groupColumns[c.by], rest, p.table, joined(rest), strings.Join(c.indexed, " AND "), p.cond, most))
	if err == nil && looked >= int64(most) {
		c.out.States[state] = store.StateCount{Count: c.out.States[state].Count, Capped: true}
	}
	return err
}

// add reads counts by state and group, and returns how many jobs were read.
func (c *jobCounter) add(ctx context.Context, text string) (looked int64, err error) {
	rows, err := c.DB.Query(ctx, text, c.args...)
	if err != nil {
		return 0, err
	}
	defer rows.Close()
	for rows.Next() {
		var state, class, kind int16
		var g store.JobGroup
		var hits, of int64
		if err := rows.Scan(&state, &g.Connection, &class, &kind, &hits, &of); err != nil {
			return 0, err
		}
		g.Class, g.ErrorKind = job.Class(class), job.FailureKind(kind)
		n := c.out.States[job.State(state)]
		n.Count += hits
		c.out.States[job.State(state)] = n
		if c.by != store.ByNothing && hits > 0 {
			c.groups[g] += hits
		}
		looked += of
	}
	return looked, rows.Err()
}
