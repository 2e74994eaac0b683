package client

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/urfave/cli/v3"

	"github.com/fireonce/fireonce/clients/go/fireoncev1"

	"github.com/fireonce/fireonce/cmd/fireonce/internal/exit"
	"github.com/fireonce/fireonce/cmd/fireonce/internal/follow"
)

func watchCommand() *cli.Command {
	return &cli.Command{
		Name: "watch", Usage: "follow one job, or all jobs of the project", ArgsUsage: "[JOB]",
		Description: "With a job: its whole history, then what happens, until it ends or needs a person; exit code 1\n" +
			"unless it succeeded. Without: what happens in the project from now on, until interrupted. A lost\n" +
			"connection is taken up again where it broke.",
		Flags: flags(append([]cli.Flag{
			keyFlag("job"),
			boolFlag("from-beginning", "without a job: start with everything that is kept"),
			textFlag("after", "`CURSOR` without a job: start after this, from --json"),
		}, watched.flags()...)...),
		Action: action(watch),
	}
}

// watched selects the jobs to follow.
var watched = fieldsOf(&fireoncev1.EventFilter{}, "connection=connection_ids schedule=schedule_id labels ended_only")

func watch(ctx context.Context, c *call) error {
	if c.cmd.Args().Present() || c.cmd.IsSet("key") {
		if c.cmd.Bool("from-beginning") || c.cmd.IsSet("after") || watched.given(c.cmd) {
			return exit.Usagef("--from-beginning, --after and filters such as --connection do not go with a job")
		}
		resp, err := c.job(ctx, true)
		if err != nil {
			return err
		}
		return c.watchJob(ctx, resp.GetJob().GetJobId())
	}
	if c.cmd.Bool("from-beginning") && c.cmd.IsSet("after") {
		return exit.Usagef("give --from-beginning or --after, not both")
	}
	filter := &fireoncev1.EventFilter{}
	if err := watched.set(c.cmd, filter); err != nil {
		return err
	}
	o := follow.Options{
		Filter:    filter,
		After:     c.cmd.String("after"),
		Beginning: c.cmd.Bool("from-beginning"),
		Lost:      c.lost,
	}
	err := follow.Events(ctx, c.Jobs, o, func(e *fireoncev1.JobEvent) error {
		return c.show(e, true)
	})
	if errors.Is(err, context.Canceled) {
		return nil // interrupted: that is how it ends
	}
	return err
}

// watchJob follows one job from its first event until it ends or needs a person.
func (c *call) watchJob(ctx context.Context, id string) error {
	o := follow.Options{
		Filter:    &fireoncev1.EventFilter{JobIds: []string{id}},
		Beginning: true, IncludeJob: true, Lost: c.lost,
	}
	var last *fireoncev1.Job
	var seen int64
	err := follow.Events(ctx, c.Jobs, o, func(e *fireoncev1.JobEvent) error {
		change := e.GetJobChanged()
		if change.GetSequence() <= seen {
			return nil // delivered again
		}
		seen, last = change.GetSequence(), change.GetJob()
		if err := c.show(e, false); err != nil {
			return err
		}
		// The job is as read now: earlier events of a job that has ended pass by.
		if change.GetSequence() >= last.GetSequence() && atRest(last.GetState()) {
			return follow.ErrStop
		}
		return nil
	})
	if err != nil {
		return err
	}
	return c.verdict(last)
}

// verdict returns an error for a job that is at rest without success.
func (c *call) verdict(j *fireoncev1.Job) error {
	if j.GetState() == fireoncev1.JobState_JOB_STATE_SUCCEEDED {
		return nil
	}
	msg := fmt.Sprintf("the job is %s", stateName(j.GetState()))
	if why := j.GetLastError().GetMessage(); why != "" {
		msg += ": " + plain(strings.TrimSuffix(why, ".")) + egressHint(j.GetLastError().GetKind())
	}
	if j.GetState() == fireoncev1.JobState_JOB_STATE_NEEDS_RESOLUTION {
		msg += "\n  find out whether the effect took place, then: fireonce resolve " + jobArgument(j) +
			" --etag " + j.GetEtag() + " --decision sent|not-sent|resend|cancel --note WHY"
	}
	return errors.New(msg)
}

// bare are keys that need no quotes in a shell.
var bare = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._:/@+-]*$`)

// jobArgument names a job on a command line: by its key, unless it is generated or needs quotes.
func jobArgument(j *fireoncev1.Job) string {
	if key := ownKey(j.GetIdempotencyKey()); bare.MatchString(key) && j.GetScheduleId() == "" {
		return key
	}
	return j.GetJobId()
}

func (c *call) show(e *fireoncev1.JobEvent, withJob bool) error {
	if c.out.json {
		return c.out.compact(e)
	}
	c.out.event(e, withJob)
	return nil
}

func (c *call) lost(err error) {
	c.tell("the stream was lost (%s); taking it up again", plain(err.Error()))
}

// atRest reports whether a job changes no more on its own.
func atRest(s fireoncev1.JobState) bool {
	switch s {
	case fireoncev1.JobState_JOB_STATE_SUCCEEDED, fireoncev1.JobState_JOB_STATE_FAILED,
		fireoncev1.JobState_JOB_STATE_CANCELED, fireoncev1.JobState_JOB_STATE_EXPIRED,
		fireoncev1.JobState_JOB_STATE_NEEDS_RESOLUTION:
		return true
	default:
		return false
	}
}
