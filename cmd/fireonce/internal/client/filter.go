package client

import (
	"strings"

	"github.com/urfave/cli/v3"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	fireoncev1 "github.com/fireonce/fireonce/gen/fireonce/v1"

	"github.com/fireonce/fireonce/cmd/fireonce/internal/duration"
	"github.com/fireonce/fireonce/cmd/fireonce/internal/exit"
)

// filterFlags select jobs.
func filterFlags() []cli.Flag {
	return []cli.Flag{
		&cli.StringSliceFlag{Name: "state", Usage: "only jobs in this `STATE`, e.g. needs-resolution; several with commas, or repeated"},
		&cli.StringSliceFlag{Name: "connection", Usage: "only jobs of the connection with this `ID` or key; may be repeated"},
		&cli.StringSliceFlag{Name: "label", Usage: "only jobs with `NAME=VALUE`; may be repeated, all must match"},
		&cli.StringFlag{Name: "from", Usage: "only jobs scheduled at or after this RFC 3339 `TIME`"},
		&cli.StringFlag{Name: "before", Usage: "only jobs scheduled before this RFC 3339 `TIME`"},
		&cli.StringFlag{Name: "key-prefix", Usage: "only jobs whose idempotency key begins with this `TEXT`"},
		&cli.StringFlag{Name: "key-text", Usage: "only jobs whose idempotency key has this `TEXT`, at least 3 characters"},
		&cli.StringFlag{Name: "external-id", Usage: "only jobs whose effect has this `ID` on the platform"},
		&cli.StringFlag{Name: "recipient", Usage: "only e-mails to this `ADDRESS`, and direct messages to this id"},
		&cli.StringSliceFlag{Name: "error", Usage: "only jobs whose last error is of this `KIND`, e.g. rate-limited; may be repeated"},
		&cli.StringSliceFlag{Name: "class", Usage: "only jobs of this effect `CLASS`: keyed, handle, observable or opaque; may be repeated"},
		&duration.Flag{Name: "older-than", HideDefault: true, Usage: "only jobs that are in their state for at least this `DURATION`"},
		&cli.StringFlag{Name: "created-from", Usage: "only jobs created at or after this RFC 3339 `TIME`"},
		&cli.StringFlag{Name: "created-before", Usage: "only jobs created before this RFC 3339 `TIME`"},
		&cli.StringFlag{Name: "ended-from", Usage: "only jobs that ended at or after this RFC 3339 `TIME`"},
		&cli.StringFlag{Name: "ended-before", Usage: "only jobs that ended before this RFC 3339 `TIME`"},
	}
}

func (c *call) jobFilter() (*fireoncev1.JobFilter, error) {
	cmd, filter := c.cmd, &fireoncev1.JobFilter{}
	for text := range strings.SplitSeq(strings.Join(cmd.StringSlice("state"), ","), ",") {
		if text == "" && !cmd.IsSet("state") {
			continue
		}
		s, ok := fireoncev1.JobState_value[enumName("JOB_STATE_", text)]
		if !ok || s == 0 {
			return nil, exit.Usagef("--state %q: must be one of %s", text, stateNames())
		}
		filter.States = append(filter.States, fireoncev1.JobState(s))
	}
	var err error
	if filter.Labels, err = labels(cmd); err != nil {
		return nil, err
	}
	for name, to := range map[string]**timestamppb.Timestamp{
		"from": &filter.ScheduleTimeFrom, "before": &filter.ScheduleTimeBefore,
		"created-from": &filter.CreateTimeFrom, "created-before": &filter.CreateTimeBefore,
		"ended-from": &filter.EndTimeFrom, "ended-before": &filter.EndTimeBefore,
	} {
		if !cmd.IsSet(name) {
			continue
		}
		if *to, err = parseTime(name, cmd.String(name)); err != nil {
			return nil, err
		}
	}
	filter.IdempotencyKeyPrefix, filter.IdempotencyKeyText = cmd.String("key-prefix"), cmd.String("key-text")
	filter.ExternalId, filter.Recipient = cmd.String("external-id"), cmd.String("recipient")
	if cmd.IsSet("older-than") {
		filter.StateAge = durationpb.New(cmd.Duration("older-than"))
	}
	for _, text := range cmd.StringSlice("error") {
		kind, ok := fireoncev1.FailureKind_value[enumName("FAILURE_KIND_", text)]
		if !ok || kind == 0 {
			return nil, exit.Usagef("--error %q: no such kind, e.g. auth, permanent, rate-limited, transient, ambiguous", text)
		}
		filter.ErrorKinds = append(filter.ErrorKinds, fireoncev1.FailureKind(kind))
	}
	for _, text := range cmd.StringSlice("class") {
		class, ok := fireoncev1.EffectClass_value[enumName("EFFECT_CLASS_", text)]
		if !ok || class == 0 {
			return nil, exit.Usagef("--class %q: must be keyed, handle, observable or opaque", text)
		}
		filter.EffectClasses = append(filter.EffectClasses, fireoncev1.EffectClass(class))
	}
	filter.ConnectionIds, filter.ConnectionKeys = idsAndKeys(cmd.StringSlice("connection"))
	return filter, nil
}

// connectionFilter reads which connections are meant.
func connectionFilter(cmd *cli.Command) (*fireoncev1.ConnectionFilter, error) {
	filter := &fireoncev1.ConnectionFilter{
		Connectors: cmd.StringSlice("connector"), AccountIdentity: cmd.String("account"), Text: cmd.String("text"),
	}
	for _, text := range cmd.StringSlice("state") {
		s, ok := fireoncev1.ConnectionState_value[enumName("CONNECTION_STATE_", text)]
		if !ok || s == 0 {
			return nil, exit.Usagef("--state %q: must be active, paused, auth-hold, rate-limited or deleted", text)
		}
		filter.States = append(filter.States, fireoncev1.ConnectionState(s))
	}
	if cmd.Bool("held") {
		if len(filter.GetStates()) > 0 {
			return nil, exit.Usagef("give --held or --state, not both")
		}
		filter.States = []fireoncev1.ConnectionState{
			fireoncev1.ConnectionState_CONNECTION_STATE_AUTH_HOLD, fireoncev1.ConnectionState_CONNECTION_STATE_PAUSED,
		}
	}
	var err error
	if filter.Labels, err = labels(cmd); err != nil {
		return nil, err
	}
	if cmd.IsSet("expires-before") {
		filter.CredentialExpireBefore, err = parseTime("expires-before", cmd.String("expires-before"))
	}
	return filter, err
}
