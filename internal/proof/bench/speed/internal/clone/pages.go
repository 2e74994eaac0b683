package clone

import (
	"context"
	"crypto/md5" //nolint:gosec // as PostgreSQL makes the same ids
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/store/logpage"
)

// jobsEach is how many jobs have their events in one page, as if that many had been worked in
// one transaction.
const jobsEach = 32

// history are the events of a model.
func history(ctx context.Context, db Execer, model job.ID) ([]logpage.HistoryEvent, error) {
	rows, err := db.Query(ctx, "SELECT project, connection_id, version, history FROM job_state WHERE job_id = $1", model.String())
	if err != nil {
		return nil, err
	}
	var of job.Event
	var connection [16]byte
	var last int64
	var body []byte
	if _, err := pgx.ForEachRow(rows, []any{&of.Project, &connection, &last, &body}, func() error { return nil }); err != nil {
		return nil, err
	}
	of.Job, of.Connection = model, connection
	return logpage.DecodeHistory(of, last, body)
}

// pages writes the events of copies from..to-1 into the log, in the transaction whose
// positions begin after base.
func pages(ctx context.Context, db Execer, events []logpage.HistoryEvent, o Options, from, to int, base int64) error {
	var positions, firsts, counts []int64
	var projects []string
	var ats []time.Time
	var starts, bodies [][]byte
	for begin := from; begin < to; begin += jobsEach {
		var entries []logpage.Entry
		for i := begin; i < min(to, begin+jobsEach); i++ {
			for _, e := range events {
				e.Job, e.Position = idOf(o.Offset+i), base+int64(i-from)*eventsEach+e.Sequence
				if o.moves("at") {
					e.At = e.At.Add(o.Shift + time.Duration(i)*o.Step)
				}
				entries = append(entries, logpage.Entry{Event: e.Event, Start: e.To == job.Sending && e.Attempt == 1})
			}
		}
		if len(entries) == 0 {
			continue
		}
		newest := entries[len(entries)-1]
		positions, firsts = append(positions, newest.Position), append(firsts, entries[0].Position)
		counts, projects, ats = append(counts, int64(len(entries))), append(projects, newest.Project), append(ats, newest.At)
		starts, bodies = append(starts, logpage.EncodeStarts(entries)), append(bodies, logpage.Encode(entries))
	}
	_, err := db.Exec(ctx, `INSERT INTO event_pages (position, first, project, at, events, starts, body)
		SELECT unnest($1::bigint[]), unnest($2::bigint[]), unnest($3::text[]), unnest($4::timestamptz[]), unnest($5::bigint[]),
			unnest($6::bytea[]), unnest($7::bytea[])`, positions, firsts, projects, ats, counts, starts, bodies)
	if err != nil {
		return fmt.Errorf("pages: %w", err)
	}
	return nil
}

// idOf is what copyID makes.
func idOf(i int) (id job.ID) {
	sum := md5.Sum([]byte(strconv.Itoa(i))) //nolint:gosec // no secret
	digits := hex.EncodeToString(sum[:])
	var milliseconds [8]byte
	binary.BigEndian.PutUint64(milliseconds[:], uint64(1600000000000+i))
	text := hex.EncodeToString(milliseconds[2:]) + "7" + digits[:3] + "8" + digits[3:18]
	_, _ = hex.Decode(id[:], []byte(text)) // it is hexadecimal
	return id
}
