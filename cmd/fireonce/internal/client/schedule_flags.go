package client

import (
	"slices"
	"strings"

	"github.com/urfave/cli/v3"
	"google.golang.org/protobuf/proto"

	"github.com/fireonce/fireonce/clients/go/schedulesv1"

	"github.com/fireonce/fireonce/cmd/fireonce/internal/duration"
	"github.com/fireonce/fireonce/cmd/fireonce/internal/exit"
)

// maxSpecFile bounds a file with a spec in JSON, in bytes.
const maxSpecFile = 1 << 20

// specFlags describe when a schedule fires.
func specFlags() []cli.Flag {
	return []cli.Flag{
		textFlag("zone", "the IANA `NAME` of the zone whose clocks count, e.g. Europe/Vienna"),
		textsFlag("cron", "five fields, or @hourly, @daily, …, as an `EXPRESSION`; may be repeated"),
		&duration.Flag{Name: "every", Usage: "an interval in elapsed time, as a `DURATION` of at least 10s", HideDefault: true},
		&duration.Flag{Name: "phase", Usage: "with --every: the offset from its multiples, a `DURATION` from 1970-01-01T00:00:00Z", HideDefault: true},
		textFlag("rrule", "a `RULE` of RFC 5545, e.g. 'FREQ=MONTHLY;BYDAY=1MO'; with --rrule-start"),
		textFlag("rrule-start", "its start, a local `TIME` such as 2026-12-07T09:00:00"),
		textsFlag("except-cron", "not at the minutes of this `EXPRESSION`; may be repeated"),
		textsFlag("except-date", "not on this `DAY`, or FIRST..LAST; may be repeated"),
		textsFlag("except-holidays", "not on the holidays of this `CALENDAR`, e.g. AT or US; may be repeated"),
		textFlag("start", "not before this RFC 3339 `TIME`"),
		textFlag("end", "not at or after this RFC 3339 `TIME`"),
		&cli.Int64Flag{Name: "max-firings", Usage: "end after a `NUMBER` of jobs", HideDefault: true},
		&duration.Flag{Name: "jitter", Usage: "start each up to so long after its time, as a `DURATION`", HideDefault: true},
		textFlag("spec-file", "the times in full: the contract's ScheduleSpec as JSON, from a `FILE`; - reads standard input"),
	}
}

// anySet reports whether one of the flags is set.
func anySet(cmd *cli.Command, flags []cli.Flag) bool {
	return slices.ContainsFunc(flags, func(f cli.Flag) bool { return cmd.IsSet(f.Names()[0]) })
}

func specGiven(cmd *cli.Command) bool { return anySet(cmd, specFlags()) }

// spec reads when a schedule fires. The server validates it.
func spec(cmd *cli.Command) (*schedulesv1.ScheduleSpec, error) {
	if cmd.IsSet("spec-file") {
		out := &schedulesv1.ScheduleSpec{}
		return out, readJSON(cmd, "spec-file", maxSpecFile, out, `{"timeZone": "Europe/Vienna", "cronExpressions": ["0 9 * * 1-5"]}`)
	}
	if !cmd.IsSet("zone") {
		return nil, exit.Usagef("say in which time zone, with --zone, e.g. --zone Europe/Vienna or --zone UTC")
	}
	if cmd.IsSet("rrule") != cmd.IsSet("rrule-start") {
		return nil, exit.Usagef("--rrule and --rrule-start go together")
	}
	if cmd.IsSet("phase") && !cmd.IsSet("every") {
		return nil, exit.Usagef("--phase goes with --every")
	}
	out, except := &schedulesv1.ScheduleSpec{}, &schedulesv1.ScheduleExclusions{}
	if err := setFromFlags(cmd, out, "zone", "time_zone", "cron", "cron_expressions", "start", "start_time", "end", "end_time"); err != nil {
		return nil, err
	}
	if err := setFromFlags(cmd, except, "except-cron", "cron_expressions", "except-holidays", "holiday_calendars"); err != nil {
		return nil, err
	}
	if cmd.IsSet("rrule") {
		out.RecurrenceRules = []*schedulesv1.RecurrenceRule{{Rule: cmd.String("rrule"), Start: cmd.String("rrule-start")}}
	}
	if cmd.IsSet("every") {
		every := &schedulesv1.ScheduleInterval{}
		if err := setFromFlags(cmd, every); err != nil {
			return nil, err
		}
		out.Intervals = []*schedulesv1.ScheduleInterval{every}
	}
	for _, days := range cmd.StringSlice("except-date") {
		first, last, _ := strings.Cut(days, "..")
		except.Dates = append(except.Dates, &schedulesv1.DateRange{First: first, Last: last})
	}
	if proto.Size(except) > 0 {
		out.Exclusions = except
	}
	return out, nil
}

// policyFlags describe what firings do when they overlap.
func policyFlags() []cli.Flag {
	return []cli.Flag{
		textFlag("overlap", "a `POLICY` while an earlier job has not ended: skip, buffer-one or allow"),
		textFlag("while-unresolved", "a `POLICY` while the outcome of an earlier job is unknown: skip, buffer-one or allow"),
		textFlag("catch-up", "a `POLICY` for firings that came while no server ran: none, latest or all"),
		&duration.Flag{Name: "catch-up-window", Usage: "how old they may be, as a `DURATION`", DefaultText: "1h"},
		&cli.IntFlag{Name: "max-per-day", Usage: "at most this `NUMBER` of jobs for one local date", HideDefault: true},
		&cli.IntFlag{Name: "pause-after-failures", Usage: "pause after this `NUMBER` of jobs in a row without an effect", HideDefault: true},
		boolFlag("pause-on-auth-hold", "pause while the connection has no usable credential"),
		&duration.Flag{Name: "cool-down", Usage: "at most one effect of the schedule per so long, as a `DURATION`", HideDefault: true},
	}
}

// templateFlags are those of jobs, beside the content.
var templateFlags = []string{"connection", "window", "delivery", "job-label", "skip-if-present", "queue", "attempt-timeout"}

// templateGiven reports whether flags describe the jobs that a schedule makes.
func templateGiven(cmd *cli.Command) bool {
	return payloadGiven(cmd) || anySet(cmd, retryFlags("", "", "")) || slices.ContainsFunc(templateFlags, cmd.IsSet)
}

// setTemplate sets the fields of a schedule's jobs that flags name.
func setTemplate(cmd *cli.Command, out *schedulesv1.JobTemplate) error {
	if cmd.IsSet("connection") {
		setConnection(out, cmd.String("connection"))
	}
	if cmd.IsSet("job-label") {
		out.Labels = nil // they replace all
	}
	if err := setFromFlags(cmd, out, "window", "start_window", "delivery", "delivery", "job-label", "labels",
		"skip-if-present", "skip_if_present.max_age", "attempt-timeout", "attempt_timeout"); err != nil {
		return err
	}
	var err error
	if out.RetryPolicy, err = changedRetry(cmd, out.GetRetryPolicy()); err != nil {
		return err
	}
	switch {
	case cmd.Bool("queue") && payloadGiven(cmd):
		return exit.Usagef("give content with `fireonce schedules items add`, or leave --queue out")
	case cmd.Bool("queue"):
		out.Content = &schedulesv1.JobTemplate_Queue{Queue: &schedulesv1.QueueContent{}}
	case payloadGiven(cmd) || out.GetContent() == nil:
		content, err := payload(cmd)
		if err != nil {
			return err
		}
		out.Content = &schedulesv1.JobTemplate_Payload{Payload: content}
	}
	return nil
}

func skipIfPresentFlag() cli.Flag {
	return &duration.Flag{
		Name: "skip-if-present", HideDefault: true,
		Usage: "do not send if the platform shows the same content already, not older than this `DURATION`; OBSERVABLE connections only",
	}
}
