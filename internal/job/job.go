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
	// PastSlack is how far in the past a requested time may be and still mean now.
	PastSlack = time.Minute
	// KeyKept is how long after its job's end an idempotency key is remembered.
	KeyKept = 30 * 24 * time.Hour
	// DefaultWindow is how late a job may begin if its request does not say.
	DefaultWindow = 2 * time.Hour
	// DefaultWaitWindow is how long a reply waits for its predecessor, from its own
	// time on, if its request does not say: a weekend, and a day more.
	DefaultWaitWindow = 72 * time.Hour
	// MinPresentAge and MaxPresentAge bound Spec.SkipIfPresent.
	MinPresentAge = time.Minute
	MaxPresentAge = 30 * 24 * time.Hour
	// MaxCoolDown bounds the cool-down of a connection or a schedule.
	MaxCoolDown = 31 * 24 * time.Hour
	// ReservedKeyPrefix starts the keys that only Fireonce itself makes.
	ReservedKeyPrefix = "fireonce:"
)

// Spec is the frozen request. Only UpdateJob may change it, and only before the
// first claim.
type Spec struct {
	ID         ID
	Project    string
	Key        string // idempotency key, supplied or derived; unique in the project
	Connection ID
	// HoldKey names the scope of a rate limit or a refused credential: the account,
	// or scheme, host and port for webhooks.
	HoldKey string
	// OwnEffectKey is the effect key that the caller gave for the job's present round, for
	// an effect that other code has begun; empty: the key is derived (see EffectKey). A
	// person's RESEND replaces it.
	OwnEffectKey string
	PayloadKind  string // the payload's oneof member, e.g. "webhook"
	Payload      []byte // the contract's Payload message, encoded
	// StartWindow is how late the job may begin: how long after its time the first attempt.
	StartWindow time.Duration
	// WaitWindow is how long a reply waits for its predecessor, from its own time on.
	WaitWindow time.Duration
	// Retry has what the request states, and comes before what the connection states.
	Retry    RetryPolicy
	Delivery Delivery
	Labels   map[string]string
	TimeZone string // for display only
	ReplyTo  ID     // a job whose effect this one answers; zero: none
	Schedule ID     // the schedule whose firing this is; zero: none
	// CoolDown is how long this job is not armed after the last arm of another job of
	// Schedule, in whole microseconds, at most MaxCoolDown; 0: Schedule has no cool-down.
	CoolDown time.Duration
	// SkipIfPresent ends the job before an attempt if its content is at the platform
	// already and is not older than this age. Whole microseconds, from MinPresentAge to
	// MaxPresentAge; 0: the platform is not asked.
	SkipIfPresent time.Duration
	// Trace is the W3C trace context in which the job was submitted: a traceparent, followed
	// by a space and the tracestate if there is one. At most MaxTrace bytes; empty: none. It
	// is not part of the fingerprint.
	Trace       string
	Fingerprint Fingerprint
	Created     time.Time
}

// Status is the part of a job that changes.
type Status struct {
	State   State
	Version int64 // rises by one with every event; equals the last event's sequence
	// Attempt is the number of armed attempts so far. It is never reset, and evidence is
	// fenced by it.
	Attempt int
	// Round rises when a person or a policy wants a new effect. Starts at 1.
	Round int
	// Failures is the retry budget used. RetryJob resets it.
	Failures int
	// Claims counts leases that ran out before an intent.
	Claims int
	// Looks counts the looks of the present chain, Negatives its complete absences, and
	// Misses its looks and polls in a row that could not be completed. Of a job that waits for
	// an attempt, Misses counts rate limits in a row.
	Looks, Negatives, Misses int
	ScheduleTime             time.Time
	// Unasked reports that no caller requested the time at which the present start window, or
	// wait window, begins: the job starts as soon as possible. Then the window, and NextAt
	// while the job waits for its start, move with a step of the store's clock. ScheduleTime
	// never does.
	Unasked bool
	// StartDeadline is when a job that waits for an attempt ends. Until the job has begun, it
	// is the end of its wait window while WaitsFor is set, and of its start window otherwise,
	// and the end is EXPIRED. Afterwards it is the end of KeepTrying, and the end is FAILED.
	StartDeadline time.Time
	// KeepTrying is RetryPolicy.KeepTrying as StartDeadline has it: since the job began, with
	// its first attempt or its first failed start since it was submitted, moved or restarted.
	// Zero: it has not begun. StartDeadline less KeepTrying is when it began.
	KeepTrying time.Duration
	// NextAt is when something is due: the start, the end of the lease, the fence, or
	// the next look. Zero in states in which nothing is due.
	NextAt     time.Time
	ClaimToken ID     // of the present lease; zero: none
	Worker     string // the holder of the last lease
	// Class is frozen at the first arm; before that, the connection's class.
	Class       Class
	CancelAsked time.Time // zero: not asked
	// Blocked explains to a user why the job waits; empty: it is not blocked.
	Blocked string
	// WaitsFor is the job that this one replies to, until that job has SUCCEEDED.
	// While it is set, this job cannot start.
	WaitsFor ID
	// PredecessorEnd is the state in which that job ended without success; zero: it
	// has not ended so, or it goes on.
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

// Failure is the last failure of a job. Its message is for users.
type Failure struct {
	Kind       FailureKind
	Message    string
	HTTPStatus int // 0: none
	At         time.Time
}

// Effect is the proof that the effect exists.
type Effect struct {
	Attempt int // 0: by a person's ruling
	Round   int
	// ExternalID and ExternalURL identify the effect at the platform; empty if the
	// platform returns none, as with webhook receivers.
	ExternalID  string
	ExternalURL string
	Proof       Proof
	At          time.Time
	// SharedWith is another job that names the same object as its effect, so that one
	// of the two may have no effect of its own; zero: there is no such job. Stores set it.
	SharedWith ID
}

// Resolution is a person's recorded ruling.
type Resolution struct {
	Ruling Ruling
	Actor  string
	Note   string
	At     time.Time
}

// resends reports whether the ruling is RESEND; nil: there is none.
func (r *Resolution) resends() bool { return r != nil && r.Ruling == RuleResend }

// Attempt is one armed try.
type Attempt struct {
	Number            int
	Round             int
	ArmToken          ID
	Worker            string
	ClaimedAt         time.Time
	ArmedAt           time.Time
	SendDeadline      time.Time // the last byte is written before this, or not at all
	AnswerDeadline    time.Time // the target works on the request no longer than this
	EffectKey         string
	RequestDigest     []byte // SHA-256 of the frozen bytes
	Frozen            []byte // the connector's frozen request; the last attempt's is deleted when the job has SUCCEEDED
	CredentialVersion int
	AccountIdentity   string
	Watermark         string
	Handle            string
	Result            Result
	Kind              FailureKind
	Message           string
	HTTPStatus        int
	BytesWritten      int64
	// PeerEnded reports whether the target itself ended the exchange (see Outcome).
	PeerEnded bool
	// Answer is the target's answer, if the connection keeps it.
	Answer  *Answer
	EndedAt time.Time
	// Span is the trace span of the request to the target; zero: it has none.
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

// Verdict is the result of a look at the platform.
type Verdict uint8

const (
	// SawPresent: exactly one object is this job's.
	SawPresent Verdict = iota + 1
	// SawAbsent: a complete read back to the watermark found nothing.
	SawAbsent
	// SawInconclusive: the read failed or was incomplete. Never an absence.
	SawInconclusive
	// SawCandidates: more than one object could be this job's.
	SawCandidates
	// SawHandle: the platform knows the job's handle; poll it.
	SawHandle
)

// String returns the contract's name of the verdict.
func (v Verdict) String() string { return name(verdictNames[:], uint8(v)) }

var verdictNames = [...]string{
	SawPresent: "PRESENT", SawAbsent: "ABSENT", SawInconclusive: "INCONCLUSIVE",
	SawCandidates: "CANDIDATES", SawHandle: "HANDLE",
}

// Observation is one look.
type Observation struct {
	// Number counts the job's looks, from 1 without gaps. Reads set it.
	Number      int
	Attempt     int
	Verdict     Verdict
	ExternalID  string
	ExternalURL string
	Handle      string
	Detail      string
	// Contradicted: the platform's own answer contradicts this absence. As many such
	// absences as would be a proof lead to a person instead. It is not stored.
	Contradicted bool
	// Kind is FailAuth if the credential was refused in an inconclusive look, and zero
	// otherwise. It is not stored: a look with a refused credential is not recorded.
	Kind FailureKind
	// Auth is the cause, for FailAuth; zero: AuthRefused. It is not stored.
	Auth AuthCause
	// RetryAfter is how long the platform asks to wait after an inconclusive look; zero:
	// it did not say. It is not stored.
	RetryAfter time.Duration
	BegunAt    time.Time
	EndedAt    time.Time
}
