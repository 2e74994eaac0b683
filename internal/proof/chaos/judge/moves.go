package judge

import (
	"slices"

	"github.com/fireonce/fireonce/internal/job"
)

// moves is the table of transitions as docs/protocol.md has it, from each state. The judge
// keeps a copy, compared with that page: the table of internal/job is what it judges.
var moves = map[job.State][]job.State{
	0:                   {job.Scheduled},
	job.Scheduled:       {job.Claimed, job.Canceled, job.Expired, job.NeedsResolution},
	job.Claimed:         {job.Scheduled, job.Retrying, job.Sending, job.Failed, job.Canceled, job.Expired, job.Accepted, job.Succeeded, job.NeedsResolution},
	job.Sending:         {job.Succeeded, job.Accepted, job.Retrying, job.Failed, job.Canceled, job.Ambiguous},
	job.Retrying:        {job.Claimed, job.Failed, job.Canceled, job.Expired, job.Accepted, job.Succeeded, job.NeedsResolution},
	job.Ambiguous:       {job.Sending, job.Succeeded, job.Accepted, job.Retrying, job.Failed, job.Canceled, job.NeedsResolution},
	job.NeedsResolution: {job.Succeeded, job.Accepted, job.Retrying, job.Failed, job.Canceled},
	job.Accepted:        {job.Succeeded, job.Failed, job.Retrying, job.Canceled, job.NeedsResolution},
	job.Failed:          {job.Retrying, job.Succeeded},
	job.Expired:         {job.Retrying, job.Succeeded},
	job.Canceled:        {job.Retrying, job.Succeeded},
}

// legal reports whether a job may move so. Staying in a state is no move, and legal.
func legal(from, to job.State) bool {
	return from == to && from.Valid() || slices.Contains(moves[from], to)
}
