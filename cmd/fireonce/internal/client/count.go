package client

import (
	"cmp"
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/urfave/cli/v3"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/fireonce/fireonce/clients/go/adminv1"
	"github.com/fireonce/fireonce/clients/go/adminv1/adminv1connect"
	"github.com/fireonce/fireonce/clients/go/fireoncev1"
)

func countCommand() *cli.Command {
	return on("", "by:WHAT=group_by "+jobFilter, adminv1connect.StatsServiceClient.CountJobs,
		func(c *call, resp *adminv1.CountJobsResponse) { c.out.counts(resp) },
		&cli.Command{Name: "count", Usage: "count the jobs that a filter selects, by state"})
}

// counts shows the states that have jobs. A count that is only a lower bound has a plus.
func (p *printer) counts(resp *adminv1.CountJobsResponse) {
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
	rows = nil
	for _, n := range resp.GetPhaseCounts() {
		if n.GetCount() > 0 || n.GetCapped() {
			rows = append(rows, []string{word(n.GetPhase()), number(n.GetCount(), n.GetCapped())})
		}
	}
	if len(rows) > 0 {
		p.line("")
	}
	p.rows(rows)
	if len(resp.GetGroups()) == 0 {
		return
	}
	p.line("")
	rows = nil
	for _, g := range resp.GetGroups() {
		var name string
		switch v := g.GetValue().(type) {
		case *adminv1.CountJobsResponse_Group_ConnectionId:
			name = cmp.Or(ownKey(g.GetConnectionKey()), v.ConnectionId)
		case *adminv1.CountJobsResponse_Group_EffectClass:
			name = strings.TrimPrefix(v.EffectClass.String(), "EFFECT_CLASS_")
		case *adminv1.CountJobsResponse_Group_ErrorKind:
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
func series(ctx context.Context, c *call, by fields) error {
	req := &adminv1.QueryStatsRequest{StartTime: timestamppb.New(time.Now().Add(-c.cmd.Duration("window"))), Filter: &adminv1.StatsFilter{}}
	if err := by.set(c.cmd, req); err != nil {
		return err
	}
	switch id, key := idOrKey(c.cmd.String("connection")); {
	case id != "":
		req.Filter.ConnectionIds = []string{id}
	case key != "":
		req.Filter.ConnectionKeys = []string{key}
	}
	return callAndPrint(ctx, c, c.Stats.QueryStats, req, func(c *call, resp *adminv1.QueryStatsResponse) { c.out.series(resp) })
}

func (p *printer) series(resp *adminv1.QueryStatsResponse) {
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
