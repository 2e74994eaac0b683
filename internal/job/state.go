package job

// State is where a job stands. The numbers are stored and are the contract's
// JobState numbers; they never change meaning.
type State uint8

const (
	// Scheduled waits for its time. Nothing was ever sent.
	Scheduled State = iota + 1
	// Claimed is leased by a worker that has written no intent. Nothing was sent
	// under this claim.
	Claimed
	// Sending has a durable intent. The effect may or may not exist.
	Sending
	// Accepted has a durable handle from the platform; it is polled, never sent again.
	Accepted
	// Ambiguous has an attempt that ended without a proof either way.
	Ambiguous
	// Retrying waits for its next attempt; every earlier one is proven to have
	// had no effect, or a person or the job's policy closed the question.
	Retrying
	// NeedsResolution waits for a person: no proof can be had.
	NeedsResolution
	// Succeeded is terminal: the effect exists, by the proof that is recorded.
	Succeeded
	// Failed is terminal: no effect, and no further attempt.
	Failed
	// Canceled is terminal: no effect, and none is wanted.
	Canceled
	// Expired is terminal: the start window passed before the job began.
	Expired
)

// States lists every state in the order of its number.
var States = []State{
	Scheduled, Claimed, Sending, Accepted, Ambiguous, Retrying,
	NeedsResolution, Succeeded, Failed, Canceled, Expired,
}

var stateNames = [...]string{
	Scheduled: "SCHEDULED", Claimed: "CLAIMED", Sending: "SENDING", Accepted: "ACCEPTED",
	Ambiguous: "AMBIGUOUS", Retrying: "RETRYING", NeedsResolution: "NEEDS_RESOLUTION",
	Succeeded: "SUCCEEDED", Failed: "FAILED", Canceled: "CANCELED", Expired: "EXPIRED",
}

// String returns the state's name as the contract and the docs write it.
func (s State) String() string {
	if !s.Valid() {
		return "NONE"
	}
	return stateNames[s]
}

// Valid reports whether s is one of States. The zero State means that there is no job yet.
func (s State) Valid() bool { return s >= Scheduled && s <= Expired }

// Terminal reports whether s is an end. A job leaves an end only by RetryJob or by
// late evidence of a success.
func (s State) Terminal() bool { return s >= Succeeded && s <= Expired }

// Unresolved reports whether a job in s waits for a proof or for a person, because the
// outcome of an attempt is unknown.
func (s State) Unresolved() bool { return s == Ambiguous || s == NeedsResolution }

// BadEnd returns s if it is an end without success, and zero otherwise.
func (s State) BadEnd() State {
	if !s.Terminal() || s == Succeeded {
		return 0
	}
	return s
}

// NotifiesReplies reports whether a move from s concerns the replies that wait for the job: it
// ends, or goes on after an end.
func (s State) NotifiesReplies(to State) bool { return s != to && (s.Terminal() || to.Terminal()) }

// Runnable reports whether a claim may take a job in s.
func (s State) Runnable() bool { return s == Scheduled || s == Retrying }

// InFlight reports whether a job in s counts against its connection's bound.
func (s State) InFlight() bool { return s == Claimed || s == Sending }

// Gated reports whether a job in s keeps the content lock: no other job with the same
// content may be armed.
func (s State) Gated() bool { return s == Sending || s == Ambiguous || s == Accepted }

// Phase is a State as far as most callers need it. The numbers are the contract's.
type Phase uint8

// The phases.
const (
	// PhaseWaiting waits for its time, its next attempt, or a hold to end.
	PhaseWaiting Phase = iota + 1
	// PhaseRunning is being worked on, by a server or by the platform.
	PhaseRunning
	// PhaseUnknown may have been sent, and there is no proof either way.
	PhaseUnknown
	// PhaseEnded has a result.
	PhaseEnded
)

// phases has the phase of every State.
var phases = [...]Phase{
	Scheduled: PhaseWaiting, Retrying: PhaseWaiting,
	Claimed: PhaseRunning, Sending: PhaseRunning, Accepted: PhaseRunning,
	Ambiguous: PhaseUnknown, NeedsResolution: PhaseUnknown,
	Succeeded: PhaseEnded, Failed: PhaseEnded, Canceled: PhaseEnded, Expired: PhaseEnded,
}

// Phase returns the phase of s; zero: s is no state.
func (s State) Phase() Phase {
	if !s.Valid() {
		return 0
	}
	return phases[s]
}

// Transition is one legal move. From is zero for a job's creation.
type Transition struct{ From, To State }

// Transitions is the whole state machine: every legal change of state. Decide refuses a
// move that is not listed here, and so does the SQL of every store; a test compares its
// copy of this table with this one. A write that keeps the state is not a transition and
// is always legal. A store may make two transitions in one write only if they are a pair
// of ClaimAndArm.
var Transitions = []Transition{
	{0, Scheduled},

	{Scheduled, Claimed},         // claim
	{Scheduled, Canceled},        // cancel; the predecessor of a reply ended
	{Scheduled, Expired},         // window over
	{Scheduled, NeedsResolution}, // the database was restored: it may have been sent since

	{Claimed, Scheduled},       // lease over, hold, shutdown: back to its earlier state
	{Claimed, Retrying},        // unsent and transient; or back to its earlier state
	{Claimed, Sending},         // arm
	{Claimed, Failed},          // bad payload, egress, budget spent, crashes its workers
	{Claimed, Canceled},        // cancel
	{Claimed, Expired},         // window over
	{Claimed, Accepted},        // late evidence
	{Claimed, Succeeded},       // late evidence, or found by the look before a later arm
	{Claimed, NeedsResolution}, // several candidates in that look; restored

	{Sending, Succeeded}, // answered
	{Sending, Accepted},  // durable handle
	{Sending, Retrying},  // proven unsent, or a definite retriable rejection
	{Sending, Failed},    // definite and permanent, or budget spent
	{Sending, Canceled},  // cancel was asked, and the attempt is proven unsent
	{Sending, Ambiguous}, // no proof

	{Retrying, Claimed},         // claim
	{Retrying, Canceled},        // cancel; the predecessor of a reply ended
	{Retrying, Failed},          // the time to keep trying is over
	{Retrying, Expired},         // start window over, after RetryJob or a new time
	{Retrying, Accepted},        // late evidence
	{Retrying, Succeeded},       // late evidence
	{Retrying, NeedsResolution}, // restored

	{Ambiguous, Sending},         // re-arm with the same effect key, KEYED in its window
	{Ambiguous, Succeeded},       // found, replayed, late evidence, assumed by policy
	{Ambiguous, Accepted},        // handle found
	{Ambiguous, Retrying},        // absence proven in time; delivery AT_LEAST_ONCE
	{Ambiguous, Failed},          // absence proven, budget or time spent
	{Ambiguous, Canceled},        // absence proven, cancel asked
	{Ambiguous, NeedsResolution}, // no proof can be had

	{NeedsResolution, Succeeded}, // a person, or late evidence
	{NeedsResolution, Accepted},  // late evidence: a handle
	{NeedsResolution, Retrying},
	{NeedsResolution, Failed},
	{NeedsResolution, Canceled},

	{Accepted, Succeeded}, // the platform's definite verdict
	{Accepted, Failed},
	{Accepted, Retrying},
	{Accepted, Canceled},
	{Accepted, NeedsResolution}, // poll budget over

	{Failed, Retrying},   // RetryJob
	{Failed, Succeeded},  // late evidence
	{Expired, Retrying},  // RetryJob
	{Expired, Succeeded}, // late evidence
	{Canceled, Retrying}, // RetryJob, of a reply whose predecessor had ended
	{Canceled, Succeeded},
}

// ClaimAndArm lists the pairs of transitions that a store may make in one write: a claim
// whose intent was prepared before it. No read sees the job CLAIMED, its version rises by
// two, and each of the two transitions has its event.
var ClaimAndArm = [][2]Transition{
	{{Scheduled, Claimed}, {Claimed, Sending}},
	{{Retrying, Claimed}, {Claimed, Sending}},
}

var legal = func() map[Transition]bool {
	m := make(map[Transition]bool, len(Transitions))
	for _, t := range Transitions {
		m[t] = true
	}
	return m
}()

// Legal reports whether a job may be written from one state to another. Staying
// in a valid state is legal.
func Legal(from, to State) bool {
	return from == to && from.Valid() || legal[Transition{from, to}]
}
