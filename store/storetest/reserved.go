package storetest

import "github.com/fireonce/fireonce/internal/job"

// The states that the contract reserves (docs/decisions/reserved.md).
const (
	Draft            job.State = 12
	AwaitingApproval job.State = 13
)

// reservedTransitions are the moves that these states will have.
var reservedTransitions = [][2]job.State{
	{0, Draft}, {0, AwaitingApproval},

	{Draft, job.Scheduled}, {Draft, AwaitingApproval}, {Draft, job.Canceled},

	{AwaitingApproval, job.Scheduled}, // approved
	{AwaitingApproval, Draft},         // rejected, or taken back
	{AwaitingApproval, job.Canceled},
	{AwaitingApproval, job.Expired}, // no approval came in its window

	{job.Scheduled, AwaitingApproval}, // another payload: the approval is void
	{job.Expired, AwaitingApproval},   // RetryJob of a job that was never approved
}

// MovesWithReserved returns the states to which a job may go from a state once the reserved
// ones are added, as the schemas write them: a bit for each, that of the state itself too.
func MovesWithReserved(from job.State) int {
	moves := 0
	for to := range AwaitingApproval + 1 {
		if job.Legal(from, to) || from > job.Expired && from == to {
			moves |= 1 << to
		}
	}
	for _, t := range reservedTransitions {
		if t[0] == from {
			moves |= 1 << t[1]
		}
	}
	return moves
}
