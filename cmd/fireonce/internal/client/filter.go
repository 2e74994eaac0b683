package client

import (
	"github.com/urfave/cli/v3"

	"github.com/fireonce/fireonce/clients/go/connectionsv1"
	"github.com/fireonce/fireonce/clients/go/fireoncev1"

	"github.com/fireonce/fireonce/cmd/fireonce/internal/duration"
	"github.com/fireonce/fireonce/cmd/fireonce/internal/exit"
)

// filterFlags select jobs.
func filterFlags() []cli.Flag {
	return []cli.Flag{
		textsFlag("state", "only jobs in this `STATE`, e.g. needs-resolution; several with commas, or repeated"),
		textsFlag("phase", "only jobs in this `PHASE`: waiting, running, unknown or ended; may be repeated"),
		textsFlag("connection", "only jobs of the connection with this `ID` or key; may be repeated"),
		textFlag("schedule", "only jobs of the schedule with this `ID` or key"),
		textsFlag("label", "only jobs with `NAME=VALUE`; may be repeated, all must match"),
		textFlag("from", "only jobs scheduled at or after this RFC 3339 `TIME`"),
		textFlag("before", "only jobs scheduled before this RFC 3339 `TIME`"),
		textFlag("key-prefix", "only jobs whose idempotency key begins with this `TEXT`"),
		textFlag("key-text", "only jobs whose idempotency key has this `TEXT`, at least 3 characters"),
		textFlag("external-id", "only jobs whose effect has this `ID` on the platform"),
		textFlag("recipient", "only e-mails to this `ADDRESS`, and direct messages to this id"),
		textsFlag("error", "only jobs whose last error is of this `KIND`, e.g. rate-limited; may be repeated"),
		textsFlag("class", "only jobs of this effect `CLASS`: keyed, handle, observable or opaque; may be repeated"),
		&duration.Flag{Name: "older-than", HideDefault: true, Usage: "only jobs that are in their state for at least this `DURATION`"},
		textFlag("created-from", "only jobs created at or after this RFC 3339 `TIME`"),
		textFlag("created-before", "only jobs created before this RFC 3339 `TIME`"),
		textFlag("ended-from", "only jobs that ended at or after this RFC 3339 `TIME`"),
		textFlag("ended-before", "only jobs that ended before this RFC 3339 `TIME`"),
	}
}

func (c *call) jobFilter() (*fireoncev1.JobFilter, error) {
	filter := &fireoncev1.JobFilter{}
	filter.ConnectionIds, filter.ConnectionKeys = idsAndKeys(c.cmd.StringSlice("connection"))
	filter.ScheduleId, filter.ScheduleKey = idOrKey(c.cmd.String("schedule"))
	return filter, setFromFlags(c.cmd, filter,
		"state", "states", "phase", "phases", "label", "labels", "class", "effect_classes", "error", "error_kinds", "older-than", "state_age",
		"key-prefix", "idempotency_key_prefix", "key-text", "idempotency_key_text",
		"from", "schedule_time_from", "before", "schedule_time_before", "created-from", "create_time_from",
		"created-before", "create_time_before", "ended-from", "end_time_from", "ended-before", "end_time_before")
}

// connectionFilter reads which connections are meant.
func connectionFilter(cmd *cli.Command) (*connectionsv1.ConnectionFilter, error) {
	filter := &connectionsv1.ConnectionFilter{}
	if cmd.Bool("held") {
		if cmd.IsSet("state") {
			return nil, exit.Usagef("give --held or --state, not both")
		}
		filter.States = []connectionsv1.ConnectionState{
			connectionsv1.ConnectionState_CONNECTION_STATE_AUTH_HOLD, connectionsv1.ConnectionState_CONNECTION_STATE_PAUSED,
		}
	}
	return filter, setFromFlags(cmd, filter, "state", "states", "connector", "connectors", "label", "labels",
		"account", "account_identity", "expires-before", "credential_expire_before")
}
