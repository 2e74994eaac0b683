package job

import "time"

// Limits that hold on every engine and transport.
const (
	// MaxKeyLen is the length of an idempotency key, in bytes.
	MaxKeyLen = 255
	// MaxPayload is the size of an encoded payload, in bytes.
	MaxPayload = 256 << 10
	// MaxAhead is how far ahead a job may be scheduled (5 years of 365 days).
	MaxAhead = 5 * 365 * 24 * time.Hour
	// PastSlack is how far in the past a requested time is still taken as now.
	PastSlack = time.Minute
	// KeyKept is how long an idempotency key is honoured after its job's end.
	KeyKept = 30 * 24 * time.Hour
	// DefaultWindow is how late a job may start when nothing else is said.
	DefaultWindow = 2 * time.Hour
	// DefaultWaitWindow is how long a reply waits for its predecessor, from its own
	// time on, when nothing else is said: a weekend, and a day more.
	DefaultWaitWindow = 72 * time.Hour
	// MaxErrorMessage is the length of a stored error message, in bytes.
	MaxErrorMessage = 2000
	// MinPresentAge and MaxPresentAge bound Spec.SkipIfPresent.
	MinPresentAge = time.Minute
	MaxPresentAge = 30 * 24 * time.Hour
	// MaxCoolDown bounds the cool-down of a connection or a schedule.
	MaxCoolDown = 31 * 24 * time.Hour
	// ReservedKeyPrefix starts keys that only Fireonce itself makes.
	ReservedKeyPrefix = "fireonce:"
)

// Spec is the frozen request: what is to happen. Only UpdateJob, before the
// first claim, may change it.
type Spec struct {
	ID         ID
	Project    string
	Key        string // idempotency key, supplied or derived; unique in the project
	Connection ID
	// HoldKey names what a rate limit or a refused credential holds: the account,
	// or scheme, host and port for webhooks.
	HoldKey string
	// OwnEffectKey is the effect key that the caller gave for the job's present round, for
	// an effect that other code has begun; empty: it is derived (see EffectKey). A person's
	// RESEND replaces it.
	OwnEffectKey string
	PayloadKind  string // the payload's oneof member, e.g. "webhook"
	Payload      []byte // the contract's Payload message, encoded
	StartWindow  time.Duration
	// WaitWindow is how long a reply waits for its predecessor, from its own time on.
	WaitWindow time.Duration
	Retry      RetryPolicy
	Policy     Policy
	Labels     map[string]string
	TimeZone   string // for display only
	ReplyTo    ID     // a job whose effect this one answers; zero: none
	Schedule   ID     // the schedule whose firing this is; zero: none
	// CoolDown is how long after the last arm of another job of Schedule this one is not
	// armed, in whole microseconds, at most MaxCoolDown; 0: Schedule has no cool-down.
	CoolDown time.Duration
	// SkipIfPresent ends the job before its first attempt if its content is there already,
	// not older than that, in whole microseconds, from MinPresentAge to MaxPresentAge; 0: it
	// is sent whatever is there.
	SkipIfPresent time.Duration
	// Trace is the trace context (W3C) that the job was submitted in: a traceparent, and
	// behind a space the tracestate if there is one. At most MaxTrace bytes; empty: none. It
	// is no part of the fingerprint.
	Trace       string
	Fingerprint Fingerprint
	Created     time.Time
}

// Status is the narrow, changing part of a job.
type Status struct {
	State   State
	Version int64 // rises by one with every event; equals the last event's sequence
	// Attempt is the number of armed attempts so far; never reset; the fence.
	Attempt int
	// Round rises when a person or a policy wants a new effect. Starts at 1.
	Round int
	// Failures is the retry budget used. RetryJob resets it.
	Failures int
	// Claims counts leases that ran out before an intent.
	Claims int
	// Looks counts looks of the present chain, Negatives its complete absences, and
	// Misses its looks and polls that could not be completed, in a row.
	Looks, Negatives, Misses int
	ScheduleTime             time.Time
	// StartDeadline is when a job that has not started ends as EXPIRED: the end of its
	// wait window as long as WaitsFor is set, of its start window from then on.
	StartDeadline time.Time
	// NextAt is when something is due: the start, the lease's end, the fence, the
	// next look. Zero in states that wait for nobody.
	NextAt     time.Time
	ClaimToken ID     // of the present lease; zero: none
	Worker     string // who holds or held the last lease
	// Class is frozen at the first arm; before that, the connection's class.
	Class       Class
	CancelAsked time.Time // zero: not asked
	// Blocked says in a user's words why the job waits; empty: it does not.
	Blocked string
	// WaitsFor is the job that this one replies to, until that one has SUCCEEDED.
	// As long as it is set, the job cannot start.
	WaitsFor ID
	// PredecessorEnd is the state in which that job ended without success; zero: it
	// has not, or it goes on.
	PredecessorEnd State
	LastError      *Failure
	Effect         *Effect
	Resolution     *Resolution
	Updated        time.Time
	Ended          time.Time // zero: not terminal
}

// Job is a stored job.
type Job struct {
	Spec
	Status
}

// Failure is the last thing that went wrong, in words fit for a user.
type Failure struct {
	Kind       FailureKind
	Message    string
	HTTPStatus int // 0: none
	At         time.Time
}

// Effect is the proof that the effect exists.
type Effect struct {
	Attempt int // 0: by a person's word
	Round   int
	// ExternalID and ExternalURL are the platform's names for it; empty where it
	// gives none, as webhook receivers do.
	ExternalID  string
	ExternalURL string
	Proof       Proof
	At          time.Time
	// SharedWith is another job that names the same object as its effect, so that one
	// of the two may have none of its own; zero: none does. Stores set it.
	SharedWith ID
}

// Resolution is a person's recorded ruling.
type Resolution struct {
	Ruling Ruling
	Actor  string
	Note   string
	At     time.Time
}

// Attempt is one armed try.
type Attempt struct {
	Number            int
	Round             int
	ArmToken          ID
	Worker            string
	ClaimedAt         time.Time
	ArmedAt           time.Time
	SendDeadline      time.Time // the last byte is written before this, or not at all
	AnswerDeadline    time.Time // nobody waits for an answer after this
	EffectKey         string
	RequestDigest     []byte // SHA-256 of the frozen bytes
	Frozen            []byte // what the connector froze for this effect; that of the last attempt goes when the job has SUCCEEDED
	CredentialVersion int
	AccountIdentity   string
	Watermark         string
	Handle            string
	Result            Result
	Kind              FailureKind
	Message           string
	HTTPStatus        int
	BytesWritten      int64
	// Answer is what the target answered, if its connection keeps that.
	Answer  *Answer
	EndedAt time.Time
	// Span is that of the request to the target; zero: it has none.
	Span Span
}

// Event is one write to a job. Sequence counts from 1 without gaps.
type Event struct {
	Position   int64 // in the store's event log
	Project    string
	Job        ID
	Connection ID
	Schedule   ID
	Sequence   int64
	From, To   State
	Cause      Cause
	Attempt    int // 0: none concerned
	Actor      string
	Reason     string
	Detail     string
	At         time.Time
}

// Verdict is what a look at the platform saw.
type Verdict uint8

const (
	// SawPresent: exactly one object is ours.
	SawPresent Verdict = iota + 1
	// SawAbsent: a complete read back to the watermark found nothing.
	SawAbsent
	// SawInconclusive: the read failed or was incomplete. Never an absence.
	SawInconclusive
	// SawCandidates: more than one object could be ours.
	SawCandidates
	// SawHandle: the platform knows our handle; poll it.
	SawHandle
)

// String gives the contract's name of the verdict.
func (v Verdict) String() string { return name(verdictNames[:], uint8(v)) }

var verdictNames = [...]string{
	SawPresent: "PRESENT", SawAbsent: "ABSENT", SawInconclusive: "INCONCLUSIVE",
	SawCandidates: "CANDIDATES", SawHandle: "HANDLE",
}

// Observation is one look.
type Observation struct {
	// Number is its place among the job's looks, from 1 without gaps. Reads set it.
	Number      int
	Attempt     int
	Verdict     Verdict
	ExternalID  string
	ExternalURL string
	Handle      string
	Detail      string
	// Contradicted says of an absence that the platform's own word speaks against it. As
	// many of them as would prove it lead to a person. It is not stored.
	Contradicted bool
	// Kind says of an inconclusive look that the credential was refused (FailAuth);
	// otherwise it is zero. It is not stored: such a look is none.
	Kind FailureKind
	// Auth is why, for FailAuth; zero: AuthRefused. It is not stored.
	Auth AuthCause
	// RetryAfter is when, after an inconclusive look, the platform wants to be asked
	// again; zero: it did not say. It is not stored.
	RetryAfter time.Duration
	BegunAt    time.Time
	EndedAt    time.Time
}
