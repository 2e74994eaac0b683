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
			_, err = c.add(ctx, c.listing.among(source, "s.state, "+groupColumns[by]+", count(*), count(*)", "GROUP BY 1, 2"))
		}
		for g, n := range c.groups {
			g.Count = n
			c.out.Groups = append(c.out.Groups, g)
		}
		c.out.Groups = store.LargestGroups(c.out.Groups)
		return c.out, err
	})
}

// groupColumns are what jobs are grouped by.
var groupColumns = map[store.GroupBy]string{
	store.ByNothing: "0::smallint", store.ByConnection: "s.connection_id", store.ByClass: "s.class", store.ByErrorKind: "s.error_kind",
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
	p, most, rest, key, group := partOf(state), store.CountLooked, "true", "g", " GROUP BY g"
	if len(c.rest) > 0 {
		rest = strings.Join(c.rest, " AND ")
	}
	if c.by == store.ByNothing {
		key, group = groupColumns[c.by], "" // SQLite would sort by it
		if len(c.rest) == 0 {
			most = store.CountIndexed
		}
	}
	looked, err := c.add(ctx, fmt.Sprintf(`%s SELECT %d::smallint, %s, count(*) FILTER (WHERE hit), count(*) FROM (
		SELECT %s AS g, (%s) IS TRUE AS hit FROM %s%s WHERE %s AND %s LIMIT %d) AS w%s`,
		c.with(), state, key, groupColumns[c.by], rest, p.table, joined(rest), strings.Join(c.indexed, " AND "), p.cond, most, group))
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
		var state job.State
		var number int16
		var g store.JobGroup
		var hits, of int64
		var key any = &number
		if c.by == store.ByConnection {
			key = &g.Connection
		}
		if err := rows.Scan(&state, key, &hits, &of); err != nil {
			return 0, err
		}
		switch c.by {
		case store.ByClass:
			g.Class = job.Class(number)
		case store.ByErrorKind:
			g.ErrorKind = job.FailureKind(number)
		case store.ByNothing, store.ByConnection:
		}
		n := c.out.States[state]
		n.Count += hits
		c.out.States[state] = n
		if c.by != store.ByNothing && hits > 0 {
			c.groups[g] += hits
		}
		looked += of
	}
	return looked, rows.Err()
}
