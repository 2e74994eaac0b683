// Package failpoint names failpoints, the points between two persisted steps at which the
// crash tests and the crash campaign kill or freeze the process. It also shifts the
// process's wall clock for them. In a build without the tag "failpoints" its functions do
// nothing.
//
// FIREONCE_FAILPOINT names the failpoint at which the process dies: "armed" at its first
// hit, "armed:3" at its third. FIREONCE_FREEZE names the failpoint at which it freezes:
// "checked:3" stops the process with SIGSTOP at every third hit, until it gets SIGCONT.
//
// FIREONCE_CLOCK_OFFSET shifts the wall clock: "2s,-3s" by 2 s from the start, and by -3 s
// from the first SIGUSR1 on. It shifts only the wall clock, as when a person sets a
// machine's time. The process must do this itself: Go asks the kernel directly, so a
// preloaded C library such as faketime has no effect.
//
// FIREONCE_CLOCK_SYNCHRONIZED, true or false, then replaces the kernel's answer whether
// that clock is synchronized (false unless it is set). FIREONCE_BOOT_ID makes the process
// believe that the machine was restarted.
//
// FIREONCE_HASTEN=400 divides by 400 the times that connectors assume platforms to need
// after a write: read lags, the pauses between looks, the life of an upload. Against a
// platform that is faster by the same factor the rules are the same, in seconds instead of
// a quarter of an hour. As a setting it could cause duplicates, so ordinary builds do not
// have it.
package failpoint

// The failpoints, in the order in which a job reaches them.
const (
	Submitted = "submitted" // the job is durable, the client has no answer
	Claimed   = "claimed"   // the lease is durable, nothing is prepared
	Prepared  = "prepared"  // dialed, the intent is not written
	Armed     = "armed"     // the intent is durable, no byte is written
	Checked   = "checked"   // the clocks allow the send, no byte is written
	Answered  = "answered"  // the answer has arrived, its outcome is not written
	Settled   = "settled"   // the outcome is durable
	Swept     = "swept"     // an overdue job was moved to its next state
	LookTaken = "looktaken" // a look is leased, nothing is read or sent
)

// The failpoints of a schedule's firing.
const (
	Decided = "decided" // a schedule's jobs are decided, nothing is written
	Fired   = "fired"   // they are durable
)

// The failpoints of a subscription's notice.
const (
	NoticeDecided = "noticedecided" // a notice is decided, nothing is written
	NoticeMade    = "noticemade"    // it is durable, with its job
)

// Notices lists the failpoints of a subscription's notice.
var Notices = []string{NoticeDecided, NoticeMade}

// Schedules lists the failpoints of a schedule's firing.
var Schedules = []string{Decided, Fired}

// All lists every failpoint of a job.
var All = []string{Submitted, Claimed, Prepared, Armed, Checked, Answered, Settled, Swept, LookTaken}
