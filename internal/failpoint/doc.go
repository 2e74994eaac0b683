// Package failpoint names the places between two persisted steps at which the
// crash tests kill the process. Built without the tag "failpoints" it is empty.
package failpoint

// The places, in the order in which a job meets them.
const (
	Submitted = "submitted" // the job is durable, the client has no answer
	Claimed   = "claimed"   // the lease is durable, nothing is prepared
	Prepared  = "prepared"  // dialled, the intent not written
	Armed     = "armed"     // the intent is durable, no byte is written
	Answered  = "answered"  // the answer is here, its outcome not written
	Settled   = "settled"   // the outcome is durable
	Swept     = "swept"     // an overdue job was put where it belongs
	LookTaken = "looktaken" // a look is leased, nothing is read or sent
)

// All lists every place.
var All = []string{Submitted, Claimed, Prepared, Armed, Answered, Settled, Swept, LookTaken}
