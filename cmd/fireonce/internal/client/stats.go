package client

import (
	"context"
	"strconv"
	"time"

	"github.com/urfave/cli/v3"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/fireonce/fireonce/clients/go/adminv1"

	"github.com/fireonce/fireonce/cmd/fireonce/internal/duration"
)

func statsCommand() *cli.Command {
	by := fieldsOf(&adminv1.QueryStatsRequest{}, "by:UNIT=bucket")
	return asks("", fieldsOf(&adminv1.GetStatsRequest{}, "connection=connection_id"), &cli.Command{
		Name: "stats", Usage: "count jobs by state and say how late they start, now or over time",
		Flags: append(by.flags(), &duration.Flag{Name: "window", Usage: "`DURATION` how far back ends and starts are counted", Value: 24 * time.Hour}),
	}, func(ctx context.Context, c *call, req *adminv1.GetStatsRequest) error {
		if c.cmd.String("by") != "" {
			return series(ctx, c, by)
		}
		return stats(ctx, c, req)
	})
}

func stats(ctx context.Context, c *call, req *adminv1.GetStatsRequest) error {
	req.Window = durationpb.New(c.cmd.Duration("window"))
	return callAndPrint(ctx, c, c.Stats.GetStats, req, func(c *call, resp *adminv1.GetStatsResponse) { c.out.stats(resp) })
}

func (p *printer) stats(s *adminv1.GetStatsResponse) {
	if why := s.GetQuarantineReason(); why != "" {
		p.line("QUARANTINED: nothing is sent: %s", plain(why))
	}
	if why := s.GetClockDoubt().GetMessage(); why != "" {
		p.line("THE TIME IS IN DOUBT: %s", plain(why))
	}
	var rows [][]string
	for _, n := range s.GetStateCounts() {
		if n.GetCount() > 0 {
			rows = append(rows, []string{stateName(n.GetState()), strconv.FormatInt(n.GetCount(), 10)})
		}
	}
	if len(rows) == 0 {
		p.line("No jobs.")
	}
	p.rows(rows)
	p.line("")
	p.fields(
		"Longest due", span(s.GetOldestDueAge()),
		"Longest unknown", span(s.GetOldestUnresolvedAge()),
		"Started", strconv.FormatInt(s.GetStartedCount(), 10),
		"Start lag p50", span(s.GetStartLagP50()),
		"Start lag p99", span(s.GetStartLagP99()),
		"Recovered", strconv.FormatInt(s.GetRecoveredCount(), 10),
		"Event lag", span(s.GetEventLag()),
		"As of", stamp(s.GetAsOfTime()),
	)
	p.quotas(s.GetQuotas())
}

// quotas shows limits and how much of each is used.
func (p *printer) quotas(all []*adminv1.GetStatsResponse_QuotaUse) {
	if len(all) == 0 {
		return
	}
	rows := [][]string{{"QUOTA", "USED", "LIMIT"}}
	for _, q := range all {
		limit := "none"
		if q.GetLimit() > 0 {
			limit = strconv.FormatInt(q.GetLimit(), 10)
		}
		rows = append(rows, []string{plain(q.GetName()), strconv.FormatInt(q.GetUsed(), 10), limit})
	}
	p.line("")
	p.table(rows)
}

// span shows a duration; nothing for none.
func span(d *durationpb.Duration) string {
	if d.AsDuration() == 0 {
		return ""
	}
	return duration.Format(d.AsDuration().Round(time.Microsecond))
}
