package client

import (
	"github.com/urfave/cli/v3"

	fireoncev1 "github.com/fireonce/fireonce/gen/fireonce/v1"

	"github.com/fireonce/fireonce/cmd/fireonce/internal/exit"
)

// filterFlags select jobs.
func filterFlags() []cli.Flag {
	return []cli.Flag{
		&cli.StringSliceFlag{Name: "state", Usage: "only jobs in this `STATE`, e.g. needs-resolution; may be repeated"},
		&cli.StringSliceFlag{Name: "connection", Usage: "only jobs of the connection with this `ID`; may be repeated"},
		&cli.StringSliceFlag{Name: "label", Usage: "only jobs with `NAME=VALUE`; may be repeated, all must match"},
		&cli.StringFlag{Name: "from", Usage: "only jobs scheduled at or after this RFC 3339 `TIME`"},
		&cli.StringFlag{Name: "before", Usage: "only jobs scheduled before this RFC 3339 `TIME`"},
	}
}

func jobFilter(cmd *cli.Command) (*fireoncev1.JobFilter, error) {
	filter := &fireoncev1.JobFilter{ConnectionIds: cmd.StringSlice("connection")}
	for _, text := range cmd.StringSlice("state") {
		s, ok := fireoncev1.JobState_value["JOB_STATE_"+enumName(text)]
		if !ok || s == 0 {
			return nil, exit.Usagef("--state %q: must be one of %s", text, stateNames())
		}
		filter.States = append(filter.States, fireoncev1.JobState(s))
	}
	var err error
	if filter.Labels, err = labels(cmd); err != nil {
		return nil, err
	}
	if cmd.IsSet("from") {
		if filter.ScheduledFrom, err = parseTime("from", cmd.String("from")); err != nil {
			return nil, err
		}
	}
	if cmd.IsSet("before") {
		if filter.ScheduledBefore, err = parseTime("before", cmd.String("before")); err != nil {
			return nil, err
		}
	}
	return filter, nil
}
