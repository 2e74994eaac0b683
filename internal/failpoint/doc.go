// Package failpoint names the places between two persisted steps at which the
// crash tests and the crash campaign kill or freeze the process, and lets them set
// its wall clock. Built without the tag "failpoints" it is empty.
//
// FIREONCE_FAILPOINT names the place of a death, "armed" at its first hit,
// "armed:3" at its third. FIREONCE_FREEZE names the place of a freeze: "checked:3"
// stops the process with SIGSTOP at each third hit, until somebody sends SIGCONT.
//
// FIREONCE_CLOCK_OFFSET says how far the wall clock is off: "2s,-3s" from the start
// by 2 s, and from the first SIGUSR1 on by -3 s. Only the wall clock is, as on a
// machine whose time somebody sets. It has to be done in here: Go asks the kernel
// itself, so that a preloaded C library such as faketime changes nothing.
//
// FIREONCE_CLOCK_SYNCHRONIZED, true or false, is then what the kernel says of that clock
// (false unless it is set), and FIREONCE_BOOT_ID makes the process believe that the
// machine was started anew.
//
// FIREONCE_HASTEN=400 makes what connectors take platforms to need after a write 400
// times as short: read lags, the pauses between looks, the life of an upload. Against
// a platform that is as much faster the rules are the same, in seconds instead of a
// quarter of an hour. A setting that does so would be one that makes duplicates, so
// that ordinary builds have none.
package failpoint

// The places, in the order in which a job meets them.
const (
	Submitted = "submitted" // the job is durable, the client has no answer
	Claimed   = "claimed"   // the lease is durable, nothing is prepared
	Prepared  = "prepared"  // dialled, the intent not written
	Armed     = "armed"     // the intent is durable, no byte is written
	Checked   = "checked"   // the clocks allow the send, no byte is written
	Answered  = "answered"  // the answer is here, its outcome not written
	Settled   = "settled"   // the outcome is durable
	Swept     = "swept"     // an overdue job was put where it belongs
	LookTaken = "looktaken" // a look is leased, nothing is read or sent
)

// The places of a schedule's firing.
const (
	Decided = "decided" // a schedule's jobs are decided, nothing is written
	Fired   = "fired"   // they are durable
)

// Schedules lists the places of a schedule's firing.
var Schedules = []string{Decided, Fired}

// All lists every place of a job.
var All = []string{Submitted, Claimed, Prepared, Armed, Checked, Answered, Settled, Swept, LookTaken}
