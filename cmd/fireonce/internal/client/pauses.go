package client

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/urfave/cli/v3"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/fireonce/fireonce/clients/go/adminv1"
	"github.com/fireonce/fireonce/clients/go/adminv1/adminv1connect"
	"github.com/fireonce/fireonce/cmd/fireonce/internal/duration"
	"github.com/fireonce/fireonce/cmd/fireonce/internal/exit"
	"github.com/fireonce/fireonce/internal/sleep"
)

// maxShownPaused bounds each list of jobs in a table.
const maxShownPaused = 20

// pauseTargets are the flags that name what is paused; one of them is given.
var pauseTargets = []string{"everything", "project", "connector", "connection", "destination", "label"}

// pauseFields are those of a pause.
var pauseFields = fieldsOf(&adminv1.CreatePauseRequest{},
	below("target", "everything project connector connection=connection_id destination label all_projects"),
	"note:TEXT=note from=begin_time until=end_time hold_windows dry_run")

func pauseCommand() *cli.Command {
	return asks("", pauseFields, &cli.Command{
		Name: "pause", Usage: "send nothing of a target until it is resumed, or in a window of time",
		Description: "What is under way is finished, and looks go on. It also prints the jobs whose time would end in the pause;\n" +
			"--dry-run only prints them, and --hold-windows has their windows begin again. `fireonce pauses` lists pauses, and `fireonce resume PAUSE` ends one.\n" +
			"With --everything, and with --all-projects, for the operator. Needs the scope connections:write.",
		Flags: []cli.Flag{
			&duration.Flag{Name: "for", Usage: "`DURATION` in place of --until: how long, from --from", HideDefault: true},
			&duration.Flag{Name: "drain", Usage: "`DURATION` wait, at most so long, until nothing of the target is being sent; exit code 1: something still is", HideDefault: true},
		},
	}, pause)
}

func resumeCommand() *cli.Command {
	return asks("", fieldsOf(&adminv1.EndPauseRequest{}), &cli.Command{
		Name: "resume", Usage: "end a pause", ArgsUsage: "PAUSE",
		Description: "PAUSE is its id, as `fireonce pauses` prints it. What it alone held back goes on immediately, repeats under\n" +
			"a key first. One that is announced is taken back. Needs the scope connections:write.",
	}, func(ctx context.Context, c *call, req *adminv1.EndPauseRequest) error {
		if c.cmd.Args().Len() != 1 {
			return exit.Usagef("name one pause, by its id")
		}
		req.PauseId = c.cmd.Args().First()
		return callAndPrint(ctx, c, c.Pauses.EndPause, req, func(c *call, resp *adminv1.EndPauseResponse) {
			c.out.line("Resumed: %s.", pauseTarget(resp.GetPause()))
		})
	})
}

func pausesCommand() *cli.Command {
	return lists("", "pauses", "ended=show_ended preview=show_preview", adminv1connect.PauseServiceClient.ListPauses, func(c *call, page *adminv1.ListPausesResponse) {
		c.out.pauses(page.GetPauses())
	}, &cli.Command{Name: "pauses", Usage: "list what is paused, by whom and why, and what is announced"})
}

// pause makes a pause, and shows what it holds back.
func pause(ctx context.Context, c *call, req *adminv1.CreatePauseRequest) error {
	if err := completePause(c.cmd, req); err != nil {
		return err
	}
	if req.GetDryRun() {
		return callAndPrint(ctx, c, c.Pauses.CreatePause, req, func(c *call, resp *adminv1.CreatePauseResponse) {
			c.out.preview(resp.GetPreview(), resp.GetPause().GetHoldWindows())
		})
	}
	resp, err := Ask(ctx, c.Pauses.CreatePause, req)
	if err != nil {
		return err
	}
	if c.out.json {
		if err := c.out.message(resp); err != nil {
			return err
		}
		req.DryRun = true
		return drain(ctx, c, req)
	}
	p := resp.GetPause()
	verb := "Paused"
	switch {
	case p.GetState() == adminv1.PauseState_PAUSE_STATE_ANNOUNCED:
		verb = "To be paused"
	case !resp.GetCreated():
		verb = "Paused already"
	}
	c.out.line("%s: %s, %s.", verb, pauseTarget(p), pauseTimes(p))
	c.out.line("To resume: fireonce resume %s", plain(p.GetPauseId()))
	// The pause comes first: an incident does not wait for a preview.
	req.DryRun = true
	if seen, err := Ask(ctx, c.Pauses.CreatePause, req); err == nil {
		c.out.preview(seen.GetPreview(), req.GetHoldWindows())
	}
	return drain(ctx, c, req)
}

// drainPoll is how often --drain looks.
const drainPoll = time.Second

// drain waits until nothing that a pause covers is being sent. It looks twice: a request that a
// transaction began beside the pause's own may be seen a moment later.
func drain(ctx context.Context, c *call, req *adminv1.CreatePauseRequest) error {
	if !c.cmd.IsSet("drain") {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, c.cmd.Duration("drain"))
	defer cancel()
	left, idle := int64(-1), 0
	for {
		seen, err := Ask(ctx, c.Pauses.CreatePause, req)
		switch {
		case ctx.Err() != nil:
		case err != nil:
			return err
		default:
			if left = seen.GetPreview().GetUnderWayCount(); left > 0 {
				idle = 0
			} else if idle++; idle == 2 {
				c.tell("drained: nothing that it covers is being sent")
				return nil
			}
		}
		if !sleep.For(ctx, drainPoll) {
			break
		}
	}
	return drainError(left)
}

// drainError is that the time of --drain is over.
func drainError(left int64) error {
	if left < 0 {
		return errors.New("paused, but it is not known whether something is still being sent")
	}
	return fmt.Errorf("paused, but %d jobs were still being sent at the last look: `fireonce pauses` has their number", left)
}

// completePause refuses flags that contradict each other, and adds what no field has.
func completePause(cmd *cli.Command, req *adminv1.CreatePauseRequest) error {
	given := 0
	for _, flag := range pauseTargets {
		if cmd.IsSet(flag) {
			given++
		}
	}
	switch {
	case given != 1:
		return exit.Usagef("name what is paused by one of --%s", strings.Join(pauseTargets, ", --"))
	case cmd.IsSet("until") && cmd.IsSet("for"):
		return exit.Usagef("--until and --for exclude each other")
	case cmd.IsSet("for"):
		from := time.Now()
		if req.GetBeginTime() != nil {
			from = req.GetBeginTime().AsTime()
		}
		req.EndTime = timestamppb.New(from.Add(cmd.Duration("for")))
	}
	return nil
}

// pauseTarget names what a pause covers.
func pauseTarget(p *adminv1.Pause) string {
	t := p.GetTarget()
	name := "everything"
	switch of := t.GetTarget().(type) {
	case *adminv1.PauseTarget_Project:
		name = "project " + p.GetProjectId()
	case *adminv1.PauseTarget_Connector:
		name = "connector " + of.Connector
	case *adminv1.PauseTarget_ConnectionId:
		name = "connection " + of.ConnectionId
	case *adminv1.PauseTarget_Destination:
		name = "destination " + of.Destination
	case *adminv1.PauseTarget_Label:
		name = "label " + of.Label.GetName() + "=" + of.Label.GetValue()
	}
	if t.GetAllProjects() {
		name += " in all projects"
	}
	if id := p.GetBreakerConnectionId(); id != "" {
		name += " of connection " + id
	}
	return plain(name)
}

// pauseTimes returns when a pause is in force.
func pauseTimes(p *adminv1.Pause) string {
	times := "from " + stamp(p.GetBeginTime()) + " until it is resumed"
	if p.GetEndTime() != nil {
		times = "from " + stamp(p.GetBeginTime()) + " to " + stamp(p.GetEndTime())
	}
	if p.GetHoldWindows() {
		times += "; windows begin again"
	}
	return times
}

func (p *printer) pauses(list []*adminv1.Pause) {
	if len(list) == 0 {
		p.line("Nothing is paused.")
		return
	}
	shown := slices.ContainsFunc(list, func(one *adminv1.Pause) bool { return one.GetPreview() != nil })
	rows := [][]string{{"STATE", "TARGET", "FROM", "UNTIL", "WINDOWS", "BY", "NOTE", "PAUSE"}}
	for _, one := range list {
		windows := "count on"
		if one.GetHoldWindows() {
			windows = "held"
		}
		until, by := stamp(one.GetEndTime()), plain(one.GetCreatedBy())
		switch {
		case one.GetEndedTime() != nil:
			until, by = stamp(one.GetEndedTime()), by+", ended by "+plain(one.GetEndedBy())
		case one.GetCause() == adminv1.PauseCause_PAUSE_CAUSE_BREAKER:
			until = "a probe succeeds, next " + stamp(one.GetNextProbeTime())
		}
		rows = append(rows, []string{
			word(one.GetState()), pauseTarget(one), stamp(one.GetBeginTime()), until, windows, by, short(plain(one.GetNote()), 60), plain(one.GetPauseId()),
		})
	}
	p.table(rows)
	for _, one := range list {
		if shown && one.GetPreview() != nil {
			p.heading(pauseTarget(one) + ", " + plain(one.GetPauseId()))
			p.preview(one.GetPreview(), one.GetHoldWindows())
		}
	}
}

// preview shows what a pause holds back.
func (p *printer) preview(of *adminv1.PausePreview, holdsWindows bool) {
	p.line("Waiting jobs that it holds back: %d. Unknown outcomes whose repeat it holds back: %d.", of.GetWaitingCount(), of.GetRepeatCount())
	p.line("Jobs that are being sent, which it lets finish: %d.", of.GetUnderWayCount())
	windows := "Jobs whose window or time to keep trying ends before that"
	if holdsWindows {
		windows += ", and begins again"
	}
	p.pausedJobs(windows, of.GetWindowEndCount(), of.GetWindowEnds())
	p.pausedJobs("Jobs that can no longer be repeated under their keys then, and need a decision", of.GetKeyEndCount(), of.GetKeyEnds())
}

func (p *printer) pausedJobs(heading string, count int64, list []*adminv1.PausedJob) {
	if count == 0 {
		return
	}
	p.heading(fmt.Sprintf("%s: %d", heading, count))
	rows := [][]string{{"KEY", "ENDS", "JOB"}}
	for _, j := range list[:min(len(list), maxShownPaused)] {
		rows = append(rows, []string{plain(j.GetIdempotencyKey()), stamp(j.GetEndTime()), plain(j.GetJobId())})
	}
	p.table(rows)
	if more := int(count) - min(len(list), maxShownPaused); more > 0 {
		p.line("… and %d more; --output json has up to 100", more)
	}
}
