//go:build unix

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/fireonce/fireonce/internal/proof/bench/speed/internal/receiver"
	"github.com/fireonce/fireonce/internal/proof/bench/speed/internal/stats"
	"github.com/fireonce/fireonce/internal/proof/bench/speed/internal/usage"
)

// Rules of this file: a steady load for a long time, in a database that has been
// in use for as long as anything is kept: each minute as many old jobs are over
// as new ones come. Jobs are due when they should be submitted: who falls behind
// does not make the lag look shorter.

const (
	// soakKept is how long jobs and events are kept: the least that may be.
	soakKept = time.Hour
	// soakPart is one line of the result.
	soakPart = time.Minute
	// sizeOf begins the keys of a table's numbers.
	sizeOf = "size:"
)

// networkSoak returns a sample for each minute.
func networkSoak(ctx context.Context, t task, give func(sample)) (err error) {
	h, err := openHall(ctx, t, "soak")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, h.drop()) }()
	if err := errors.Join(h.over(ctx, int(t.Soak.Seconds())*t.Pace, t.Soak), h.local.close()); err != nil {
		return err
	}
	s, err := serve(ctx, h.task, callLines, "--keep-jobs", soakKept.String(), "--keep-events", soakKept.String())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	var parts []*soaked
	for begun := time.Now(); len(parts) == 0 || time.Since(begun)+soakPart/2 < t.Soak; {
		p, err := s.soak(ctx, len(parts), min(soakPart, t.Soak))
		if err != nil {
			return err
		}
		parts = append(parts, p)
	}
	for _, p := range parts {
		if err := p.finish(ctx); err != nil {
			return err
		}
		give(p.sample)
	}
	return nil
}

// over adds jobs that ended so long ago that they will have been kept long enough
// one after the other, within a time from now on.
func (h *hall) over(ctx context.Context, jobs int, within time.Duration) error {
	return h.endedWith(ctx, jobs, -within*manyConnections/time.Duration(max(1, jobs)), within-soakKept)
}

// soaked is a part of the soak.
type soaked struct {
	run  receiver.Run
	jobs int
	sample
}

// soak submits at the task's pace for a while.
func (s *served) soak(ctx context.Context, part int, lasts time.Duration) (*soaked, error) {
	name := fmt.Sprintf("%s-part%d", s.Run, part)
	p := &soaked{run: receiver.At(s.Receiver, name), jobs: int(lasts.Seconds() * float64(s.Pace))}
	m := s.start(ctx, s.process.PID())
	begun := time.Now()
	err := concurrently(ctx, s.Callers, p.jobs, func(ctx context.Context, i int) error {
		at := begun.Add(time.Duration(i) * time.Second / time.Duration(s.Pace))
		if wait := time.Until(at); wait > 0 && !nap(ctx, wait) {
			return ctx.Err()
		}
		r := s.request(i, receiver.Payload(i, at), time.Time{})
		r.IdempotencyKey = fmt.Sprintf("%s-%d", name, i)
		r.GetPayload().GetWebhook().Url = p.run.URL()
		resp, err := s.jobs().ScheduleJob(ctx, r)
		if err == nil && !resp.GetCreated() {
			err = fmt.Errorf("job %d was there already", i)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	p.sample = m.stop(ctx, p.jobs)
	memory, _ := usage.Memory(s.process.PID())
	p.sample["server_mb"] = float64(memory) / megabyte
	return p, s.sizes(ctx, p.sample)
}

// finish waits until what was submitted has arrived, and looks at it.
func (p *soaked) finish(ctx context.Context) error {
	if err := p.run.Await(ctx, p.jobs); err != nil {
		return err
	}
	tally, err := p.run.End(ctx)
	if err != nil {
		return err
	}
	lags(p.sample, tally)
	return tally.Check(p.jobs)
}

// sizes notes what the tables take.
func (t task) sizes(ctx context.Context, s sample) error {
	conn, err := pgx.Connect(ctx, t.Admin)
	if err != nil {
		return err
	}
	defer conn.Close(ctx) //nolint:errcheck // it only reads
	rows, err := conn.Query(ctx, `SELECT relname::text, pg_table_size(relid) / 1e6, pg_indexes_size(relid) / 1e6,
		n_live_tup::float8, n_dead_tup::float8, autovacuum_count::float8 FROM pg_stat_user_tables`)
	if err != nil {
		return err
	}
	var name string
	var values [5]float64
	_, err = pgx.ForEachRow(rows, []any{&name, &values[0], &values[1], &values[2], &values[3], &values[4]}, func() error {
		for i, column := range tableColumns {
			s[sizeOf+name+":"+column] = values[i]
		}
		return nil
	})
	return err
}

// fewRows is up to how many rows a table is not worth a line.
const fewRows = 100

// tableColumns are a table's numbers.
var tableColumns = []string{"table MB", "index MB", "live rows", "dead rows", "vacuums"}

// timeline writes samples in their order, and the tables at the begin, in the
// middle and at the end.
func timeline(w io.Writer, of benchmark, samples []sample) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprint(t, "minute\t")
	for _, m := range of.metrics {
		fmt.Fprintf(t, "%s\t", m.unit)
	}
	fmt.Fprintln(t)
	for i, s := range samples {
		fmt.Fprintf(t, "%d\t", i+1)
		for _, m := range of.metrics {
			fmt.Fprintf(t, "%s\t", stats.Short(s[m.key]))
		}
		fmt.Fprintln(t)
	}
	if len(samples) == 0 || samples[0] == nil {
		return t.Flush()
	}
	ends := []sample{samples[0], samples[len(samples)/2], samples[len(samples)-1]}
	fmt.Fprintf(t, "\ntable\t%s\t\n", strings.Join(tableColumns, "\t"))
	tables := make(map[string]bool)
	for key := range ends[0] {
		if name, found := strings.CutPrefix(key, sizeOf); found {
			name, _, _ = strings.Cut(name, ":")
			tables[name] = true
		}
	}
	last := ends[len(ends)-1]
	for _, name := range slices.Sorted(maps.Keys(tables)) {
		if last[sizeOf+name+":live rows"]+last[sizeOf+name+":dead rows"] < fewRows {
			continue
		}
		fmt.Fprintf(t, "%s\t", name)
		for _, column := range tableColumns {
			var values []string
			for _, s := range ends {
				values = append(values, stats.Short(s[sizeOf+name+":"+column]))
			}
			fmt.Fprintf(t, "%s\t", strings.Join(values, " > "))
		}
		fmt.Fprintln(t)
	}
	return t.Flush()
}
