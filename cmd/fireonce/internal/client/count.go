package client

import (
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/urfave/cli/v3"
	"google.golang.org/protobuf/types/known/timestamppb"

	fireoncev1 "github.com/fireonce/fireonce/gen/fireonce/v1"

	"github.com/fireonce/fireonce/cmd/fireonce/internal/exit"
)

func countCommand() *cli.Command {
	return &cli.Command{
		Name: "count", Usage: "count the jobs that a filter selects, by state",
		Flags: flags(append(filterFlags(),
			&cli.StringFlag{Name: "by", Usage: "also in groups, by `WHAT`: connection, effect-class or error-kind"},
		)...),
		Action: action(count),
	}
}

func count(ctx context.Context, c *call) error {
	if err := c.noArgs(); err != nil {
		return err
	}
	req := &fireoncev1.CountJobsRequest{}
	if by := c.cmd.String("by"); by != "" {
		dimension, ok := fireoncev1.CountDimension_value[enumName("COUNT_DIMENSION_", by)]
		if !ok || dimension == 0 {
			return exit.Usagef("--by %q: must be connection, effect-class or error-kind", by)
		}
		req.GroupBy = fireoncev1.CountDimension(dimension)
	}
	var err error
	if req.Filter, err = c.jobFilter(); err != nil {
		return err
	}
	ctx, cancel := unary(ctx)
	defer cancel()
	resp, err := c.Stats.CountJobs(ctx, req)
	if err != nil {
		return err
	}
	if c.out.json {
		return c.out.message(resp)
	}
	c.out.counts(resp)
	return nil
}

// counts shows the states that have jobs. A count that is only a lower bound has a plus.
func (p *printer) counts(resp *fireoncev1.CountJobsResponse) {
	number := func(n int64, capped bool) string {
		if capped {
			return strconv.FormatInt(n, 10) + "+"
		}
		return strconv.FormatInt(n, 10)
	}
	var rows [][]string
	for _, n := range resp.GetStateCounts() {
		if n.GetCount() > 0 || n.GetCapped() {
			rows = append(rows, []string{stateName(n.GetState()), number(n.GetCount(), n.GetCapped())})
		}
	}
	p.rows(append(rows, []string{"ALL", number(resp.GetCount(), resp.GetCapped())}))
	if len(resp.GetGroups()) == 0 {
		return
	}
	p.line("")
	rows = nil
	for _, g := range resp.GetGroups() {
		var name string
		switch v := g.GetValue().(type) {
		case *fireoncev1.CountJobsResponse_Group_ConnectionId:
			name = v.ConnectionId
		case *fireoncev1.CountJobsResponse_Group_EffectClass:
			name = strings.TrimPrefix(v.EffectClass.String(), "EFFECT_CLASS_")
		case *fireoncev1.CountJobsResponse_Group_ErrorKind:
			name = strings.TrimPrefix(v.ErrorKind.String(), "FAILURE_KIND_")
			if v.ErrorKind == 0 {
				name = "no error"
			}
		}
		rows = append(rows, []string{plain(name), strconv.FormatInt(g.GetCount(), 10)})
	}
	p.rows(rows)
}

// series shows counts over time.
func series(ctx context.Context, c *call) error {
	cmd := c.cmd
	bucket, ok := fireoncev1.StatsBucket_value[enumName("STATS_BUCKET_", cmd.String("by"))]
	if !ok || bucket == 0 {
		return exit.Usagef("--by %q: must be minute, hour or day", cmd.String("by"))
	}
	req := &fireoncev1.QueryStatsRequest{
		Bucket: fireoncev1.StatsBucket(bucket), StartTime: timestamppb.New(time.Now().Add(-cmd.Duration("window"))),
		Filter: &fireoncev1.StatsFilter{},
	}
	if name := cmd.String("connection"); name != "" {
		req.Filter.ConnectionIds, req.Filter.ConnectionKeys = idsAndKeys([]string{name})
	}
	ctx, cancel := unary(ctx)
	defer cancel()
	resp, err := c.Stats.QueryStats(ctx, req)
	if err != nil {
		return err
	}
	if c.out.json {
		return c.out.message(resp)
	}
	c.out.series(resp)
	return nil
}

func (p *printer) series(resp *fireoncev1.QueryStatsResponse) {
	rows := [][]string{{"START", "SCHEDULED", "STARTED", "LAG P50", "LAG P99", "SUCCEEDED", "FAILED", "CANCELED", "EXPIRED", "UNKNOWN", "RECOVERED"}}
	for _, r := range resp.GetRows() {
		ends := make(map[fireoncev1.JobState]int64)
		for _, e := range r.GetEndedCounts() {
			ends[e.GetState()] = e.GetCount()
		}
		row := []string{stamp(r.GetStartTime()), strconv.FormatInt(r.GetScheduledCount(), 10), strconv.FormatInt(r.GetStartedCount(), 10),
			span(r.GetStartLag().GetP50()), span(r.GetStartLag().GetP99())}
		for _, n := range []int64{
			ends[fireoncev1.JobState_JOB_STATE_SUCCEEDED], ends[fireoncev1.JobState_JOB_STATE_FAILED],
			ends[fireoncev1.JobState_JOB_STATE_CANCELED], ends[fireoncev1.JobState_JOB_STATE_EXPIRED],
			r.GetUnknownCount(), r.GetRecoveredCount(),
		} {
			row = append(row, strconv.FormatInt(n, 10))
		}
		rows = append(rows, row)
	}
	if len(rows) == 1 {
		p.line("Nothing happened.")
	} else {
		p.table(rows)
	}
	p.line("\nCounted up to %s", stamp(resp.GetAsOfTime()))
}
