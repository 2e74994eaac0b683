package client

import (
	"cmp"
	"slices"

	"github.com/urfave/cli/v3"

	"github.com/fireonce/fireonce/clients/go/schedulesv1"

	"github.com/fireonce/fireonce/cmd/fireonce/internal/exit"
)

// maxSpecFile bounds a file with a spec in JSON, in bytes.
const maxSpecFile = 1 << 20

// specFields describe when a schedule fires, in a field spec.
const specFields = "zone:NAME=spec.time_zone cron:EXPRESSION=spec.cron_expressions start=spec.start_time end=spec.end_time spec.max_firings " +
	"spec.jitter except-cron:EXPRESSION=spec.exclusions.cron_expressions except-date:DAY=spec.exclusions.dates " +
	"except-holidays:CALENDAR=spec.exclusions.holiday_calendars"

var (
	intervalFields = fieldsOf(&schedulesv1.ScheduleInterval{}, "every phase")
	ruleFields     = fieldsOf(&schedulesv1.RecurrenceRule{}, "rrule:RULE=rule rrule-start:TIME=start")
)

// specFlags describe when a schedule fires.
func specFlags() []cli.Flag {
	return slices.Concat(fieldsOf(&schedulesv1.CreateScheduleRequest{}, specFields).flags(), intervalFields.flags(), ruleFields.flags(), []cli.Flag{
		textFlag("spec-file", "`FILE` the times in full, from a file: the contract's ScheduleSpec as JSON; - reads standard input"),
	})
}

// anySet reports whether one of the flags is set.
func anySet(cmd *cli.Command, flags []cli.Flag) bool {
	return slices.ContainsFunc(flags, func(f cli.Flag) bool { return cmd.IsSet(f.Names()[0]) })
}

func specGiven(cmd *cli.Command) bool { return anySet(cmd, specFlags()) }

// specMissing returns an error if flags do not say when a schedule fires.
func specMissing(cmd *cli.Command) error {
	switch {
	case cmd.IsSet("spec-file"):
		return nil
	case !cmd.IsSet("zone"):
		return exit.Usagef("say in which time zone, with --zone, e.g. --zone Europe/Vienna or --zone UTC")
	case !cmd.IsSet("cron") && !cmd.IsSet("every") && !cmd.IsSet("rrule"):
		return exit.Usagef("say when, with --cron, --every or --rrule")
	default:
		return nil
	}
}

// spec reads when a schedule fires. The server validates it.
func spec(cmd *cli.Command) (*schedulesv1.ScheduleSpec, error) {
	if cmd.IsSet("spec-file") {
		out := &schedulesv1.ScheduleSpec{}
		return out, readJSON(cmd, "spec-file", maxSpecFile, out, `{"timeZone": "Europe/Vienna", "cronExpressions": ["0 9 * * 1-5"]}`)
	}
	if err := specMissing(cmd); err != nil {
		return nil, err
	}
	if cmd.IsSet("rrule") != cmd.IsSet("rrule-start") {
		return nil, exit.Usagef("--rrule and --rrule-start go together")
	}
	if cmd.IsSet("phase") && !cmd.IsSet("every") {
		return nil, exit.Usagef("--phase goes with --every")
	}
	whole := &schedulesv1.CreateScheduleRequest{Spec: &schedulesv1.ScheduleSpec{}}
	every, rule, out := &schedulesv1.ScheduleInterval{}, &schedulesv1.RecurrenceRule{}, whole.GetSpec()
	if err := cmp.Or(fieldsOf(whole, specFields).set(cmd, whole), intervalFields.set(cmd, every), ruleFields.set(cmd, rule)); err != nil {
		return nil, err
	}
	if cmd.IsSet("rrule") {
		out.RecurrenceRules = []*schedulesv1.RecurrenceRule{rule}
	}
	if cmd.IsSet("every") {
		out.Intervals = []*schedulesv1.ScheduleInterval{every}
	}
	return out, nil
}

// policyFields describe what firings do when they overlap; templateFields are those of jobs, beside the
// content.
var (
	policyFields = below("policies", "overlap:POLICY=overlap while-unresolved:POLICY=while_unresolved catch-up:POLICY=catch_up catch_up_window max_per_day pause_after_failures "+
		"pause_on_auth_hold cool_down")
	templateFields = below("job_template", "connection=connection_id window=start_window delivery job-label=labels attempt_timeout "+
		"skip-if-present=skip_if_present.max_age callback:CONNECTION=callback")
	templateRetry = below("job_template.retry_policy", retryFields)
)

// setContent sets the content of the jobs that a schedule makes.
func setContent(cmd *cli.Command, out *schedulesv1.JobTemplate) error {
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
