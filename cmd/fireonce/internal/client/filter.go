package client

import (
	"github.com/urfave/cli/v3"

	"github.com/fireonce/fireonce/clients/go/connectionsv1"

	"github.com/fireonce/fireonce/cmd/fireonce/internal/exit"
)

// jobFilter has the words of a JobFilter's flags, in a request's field filter.
var jobFilter = below("filter", "states phases connection=connection_ids schedule=schedule_id labels from=schedule_time_from "+
	"before=schedule_time_before older-than=state_age key-prefix:TEXT=idempotency_key_prefix key-text=idempotency_key_text "+
	"external-id=external_id recipient:ADDRESS=recipient error:KIND=error_kinds class=effect_classes destinations created-from=create_time_from "+
	"created-before=create_time_before ended-from=end_time_from ended-before=end_time_before")

// connectionFilter has those of a ConnectionFilter.
var connectionFilter = below("filter", "states connectors labels account:NAME=account_identity text expires-before=credential_expire_before show-deleted=show_deleted")

// heldOnly reads --held: connections on which jobs wait for a person.
func heldOnly(cmd *cli.Command, req *connectionsv1.ListConnectionsRequest) error {
	if cmd.IsSet("state") {
		return exit.Usagef("give --held or --state, not both")
	}
	if req.GetFilter() == nil {
		req.Filter = &connectionsv1.ConnectionFilter{}
	}
	req.Filter.States = []connectionsv1.ConnectionState{
		connectionsv1.ConnectionState_CONNECTION_STATE_AUTH_HOLD, connectionsv1.ConnectionState_CONNECTION_STATE_PAUSED,
	}
	return nil
}
