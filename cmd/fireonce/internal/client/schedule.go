package client

import (
	"context"
	"errors"
	"io"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/urfave/cli/v3"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/fireonce/fireonce/clients/go/fireoncev1"

	"github.com/fireonce/fireonce/cmd/fireonce/internal/duration"
	"github.com/fireonce/fireonce/cmd/fireonce/internal/exit"
)

// maxBody is the contract's bound on a body. No more is read.
const maxBody = 256 << 10

func scheduleCommand() *cli.Command {
	return asks("", scheduleFields, &cli.Command{
		Name:  "schedule",
		Usage: "schedule a request, a post, an e-mail or anything else",
		Description: "Stores one job, at --at or --in, or immediately. Flags say what it sends: --url a request, --text and --media a post, --to an\n" +
			"e-mail, --recipient a direct message, --payload-file anything. The key names the intended effect: the same call with\n" +
			"the same key is the same job. Without --key one is made and printed; keep it to repeat the call.\n\n" +
			"   fireonce schedule --connection orders --url http://127.0.0.1:9000/paid --body '{\"order\": 42}' --key order-42-paid --watch\n" +
			"   fireonce schedule --connection mail --sender shop@example.org --to ada@example.org --subject Welcome --text Hello --in 2d\n" +
			"   fireonce schedule --connection mastodon --text 'Good morning.' --media https://example.org/a.png --alt 'A bridge' --in 1h",
		Flags: slices.Concat([]cli.Flag{
			&cli.StringFlag{Name: "key", Usage: "`KEY` the idempotency key, e.g. welcome-email:user-42", DefaultText: "a new one, which is printed"},
			boolFlag("watch", "follow the job until it ends or needs a person; exit 1 unless it succeeded"),
			zoneFlag(),
		}, whenFlags("; a job that is stored under --key keeps its time"), payloadFlags()),
		Metadata: map[string]any{needs: contentMissing},
	}, schedule)
}

var scheduleFields = fieldsOf(&fireoncev1.ScheduleJobRequest{}, "connection=connection_id! labels window=start_window delivery").
	and(fieldsOf(&fireoncev1.ScheduleJobRequest{}, below("retry_policy", retryFields)).otherwise("the connection's")).
	and(fieldsOf(&fireoncev1.ScheduleJobRequest{}, "attempt_timeout reply-to:JOB=reply_to_job_id wait_window effect_key derive_key "+
		"skip-if-present=skip_if_present.max_age callback:CONNECTION=callback validate_only"))

func schedule(ctx context.Context, c *call, req *fireoncev1.ScheduleJobRequest) error {
	if err := completeJob(c.cmd, req); err != nil {
		return err
	}
	resp, err := sendContent(ctx, c, req.GetPayload(), c.Jobs.ScheduleJob, req)
	if at := timeOnly(err); at != nil && c.cmd.IsSet("in") {
		// --in is another time in each call, but the same request.
		req.ScheduleTime = at
		if again, other := sendContent(ctx, c, req.GetPayload(), c.Jobs.ScheduleJob, req); other == nil {
			resp, err = again, nil
		}
	}
	if err != nil {
		c.hintContent(ctx, err, req.GetPayload())
		return c.tellRepeat(err, "job", "key", req.GetIdempotencyKey())
	}
	err = printAnswer(c, resp, nil, func(c *call, resp *fireoncev1.ScheduleJobResponse) {
		c.out.scheduled(resp, req.GetValidateOnly())
		for _, w := range resp.GetWarnings() {
			c.tell("warning: %s: %s", plain(w.GetField()), plain(w.GetMessage()))
		}
		c.tellMark(resp)
	})
	if err != nil || !c.cmd.Bool("watch") || req.GetValidateOnly() {
		return err
	}
	return c.watchJob(ctx, resp.GetJob().GetJobId())
}

// tellRepeat prints how to repeat a call that failed and may have been made all the same. A connection
// that was refused has carried nothing. It returns the call's error.
func (c *call) tellRepeat(err error, what, flag, key string) error {
	if exit.Code(err) == exit.Unavailable && !errors.Is(err, syscall.ECONNREFUSED) && key != "" {
		c.tell("the %s may or may not be stored; repeat the call with --%s %s", what, flag, key)
	}
	return err
}

// timeOnly returns the time of the job that holds a key, if nothing but the time keeps the
// request from being a repeat of it.
func timeOnly(err error) *timestamppb.Timestamp {
	detail, _ := exit.Details(err)
	if c := detail.GetIdempotencyConflict(); len(c.GetMismatchedFields()) == 1 && c.GetMismatchedFields()[0] == "schedule_time" {
		return c.GetScheduleTime()
	}
	return nil
}

// tellMark prints what a change of the clocks did to a local time.
func (c *call) tellMark(resp interface {
	GetJob() *fireoncev1.Job
	GetLocalTimeMark() fireoncev1.TimeMark
}) {
	at := resp.GetJob().GetScheduleTime().AsTime().Format(time.RFC3339)
	switch resp.GetLocalTimeMark() {
	case fireoncev1.TimeMark_TIME_MARK_SHIFTED:
		c.tell("the clocks skip that local time; the job is due at %s, the first instant after it", at)
	case fireoncev1.TimeMark_TIME_MARK_FIRST_OF_TWO:
		c.tell("that local time occurs twice; the job is due at %s, the first of the two", at)
	default:
	}
}

// completeJob reads what no field of a job's request has a flag for.
func completeJob(cmd *cli.Command, req *fireoncev1.ScheduleJobRequest) (err error) {
	switch {
	case cmd.IsSet("key") && (cmd.String("key") == "" || req.GetDeriveKey()):
		return exit.Usagef("--key must not be empty, and does not go with --derive-key")
	case req.GetDeriveKey() && !cmd.IsSet("at"):
		return exit.Usagef("--derive-key needs --at: the time is part of the key")
	case !req.GetDeriveKey():
		if req.IdempotencyKey, err = keyOrNew(cmd, "key"); err != nil {
			return err
		}
	}
	if req.ScheduleTime, req.LocalTime, err = when(cmd, time.Now()); err == nil {
		req.Payload, err = payload(cmd)
	}
	return err
}

// whenFlags are the flags for a time. note is a remark on --in.
func whenFlags(note string) []cli.Flag {
	return []cli.Flag{
		textFlag("at", "`TIME` when it is due, e.g. 2030-01-31T09:00:00+01:00"),
		&duration.Flag{Name: "in", HideDefault: true, Usage: "`DURATION` how long from now it is due, e.g. 5s or 2d" + note},
	}
}

func zoneFlag() cli.Flag {
	return textFlag("zone", "`NAME` the zone in which --at is a local time, e.g. --at 2030-01-31T09:00:00 --zone Europe/Vienna")
}

// when reads --at, with --zone or without, and --in; nil: now.
func when(cmd *cli.Command, now time.Time) (*timestamppb.Timestamp, *fireoncev1.LocalTime, error) {
	switch {
	case cmd.IsSet("at") && cmd.IsSet("in"):
		return nil, nil, exit.Usagef("give --at or --in, not both")
	case cmd.IsSet("zone") && !cmd.IsSet("at"):
		return nil, nil, exit.Usagef("--zone needs --at, a local time such as 2030-01-31T09:00:00")
	case cmd.IsSet("zone"):
		return nil, &fireoncev1.LocalTime{DateTime: cmd.String("at"), TimeZone: cmd.String("zone")}, nil
	case cmd.IsSet("at"):
		at, err := parseTime("at", cmd.String("at"))
		return at, nil, err
	case cmd.IsSet("in"):
		if cmd.Duration("in") < 0 {
			return nil, nil, exit.Usagef("--in must not be negative")
		}
		return timestamppb.New(now.Add(cmd.Duration("in"))), nil, nil
	default:
		return nil, nil, nil
	}
}

// tableTime is how tables show a time.
const tableTime = "2006-01-02 15:04:05.000 -07:00"

// zoneHint returns how a time without an offset is given, where that is possible.
func zoneHint(flag, text string) string {
	if _, err := time.Parse("2006-01-02T15:04:05", text); err != nil || flag != "at" {
		return ""
	}
	return "; --zone Europe/Vienna beside it makes it a local time"
}

func parseTime(flag, text string) (*timestamppb.Timestamp, error) {
	t, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		t, err = time.Parse(tableTime, text)
	}
	if err != nil {
		return nil, exit.Usagef("--%s %q is not an RFC 3339 time, e.g. 2030-01-31T09:00:00+01:00, or 2030-01-31T08:00:00Z for UTC%s", flag, text, zoneHint(flag, text))
	}
	return timestamppb.New(t), nil
}

// namedValues reads a flag of names and values.
func namedValues(cmd *cli.Command, flag string) (map[string]string, error) {
	out := make(map[string]string)
	for _, pair := range cmd.StringSlice(flag) {
		name, value, ok := strings.Cut(pair, "=")
		if _, twice := out[name]; !ok || name == "" || twice {
			return nil, exit.Usagef("--%s %q: must be NAME=VALUE, each name once", flag, pair)
		}
		out[name] = value
	}
	return out, nil
}

// readFile reads a file, or standard input for "-", up to a limit.
func readFile(cmd *cli.Command, name string, limit int64) ([]byte, error) {
	in := cmd.Root().Reader
	if name == "-" {
		if !stdinFree(cmd.Root()) {
			return nil, exit.Usagef("standard input can be read for one flag only")
		}
	} else {
		f, err := os.Open(name)
		if err != nil {
			return nil, exit.AsUsage(err)
		}
		defer func() { _ = f.Close() }()
		in = f
	}
	data, err := io.ReadAll(io.LimitReader(in, limit+1))
	if err != nil {
		return nil, err
	}
	if int64(len(data)) > limit {
		return nil, exit.Usagef("more than %d bytes", limit)
	}
	return data, nil
}

// stdinFree reports whether no flag has read standard input yet, and reserves it: a second flag
// would read, and send, an empty text.
func stdinFree(root *cli.Command) bool {
	const taken = "standard input is read"
	if root.Metadata[taken] != nil {
		return false
	}
	if root.Metadata == nil {
		root.Metadata = make(map[string]any)
	}
	root.Metadata[taken] = true
	return true
}
