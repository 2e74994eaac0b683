package job

// Class is the way in which duplicates at a target can be prevented. It is a
// property of the connection and is frozen on the job at its first arm.
type Class uint8

const (
	// Keyed targets dedupe on the effect key within a stated window.
	Keyed Class = iota + 1
	// Handle targets work in two phases: a handle first, then one commit.
	Handle
	// Observable targets do not dedupe, but can be asked which effects exist.
	Observable
	// Opaque targets offer neither.
	Opaque
)

// Classes lists every class.
var Classes = []Class{Keyed, Handle, Observable, Opaque}

// String returns the contract's name of the class.
func (c Class) String() string { return name(classNames[:], uint8(c)) }

var classNames = [...]string{Keyed: "KEYED", Handle: "HANDLE", Observable: "OBSERVABLE", Opaque: "OPAQUE"}

// Delivery is what a job promises if its outcome stays unknown.
type Delivery uint8

const (
	// OnceOrAsk waits for a person. The default.
	OnceOrAsk Delivery = iota + 1
	// AtMostOnce never sends again: it assumes that the effect exists, which may be missing.
	AtMostOnce
	// AtLeastOnce sends again with a new effect key: the effect may be duplicated. It is never
	// a default.
	AtLeastOnce
)

// String returns the contract's name of the delivery.
func (d Delivery) String() string { return name(deliveryNames[:], uint8(d)) }

var deliveryNames = [...]string{OnceOrAsk: "ONCE_OR_ASK", AtMostOnce: "AT_MOST_ONCE", AtLeastOnce: "AT_LEAST_ONCE"}

// FailureKind classifies a failure. Connectors classify; Decide judges.
type FailureKind uint8

const (
	// FailAuth: the credential was refused.
	FailAuth FailureKind = iota + 1
	// FailPermanent: refused permanently.
	FailPermanent
	// FailRateLimited: refused until a stated time.
	FailRateLimited
	// FailTransient: proven to have had no effect; worth another attempt.
	FailTransient
	// FailAmbiguous: no proof either way.
	FailAmbiguous
	// FailEgressDenied: the egress policy refuses the address.
	FailEgressDenied
	// FailExhausted: the budget of attempts is spent.
	FailExhausted
	// FailWorkerCrash: MaxClaims leases in a row ended without an intent.
	FailWorkerCrash
	// FailWindowOver: the start window passed.
	FailWindowOver
	// FailPredecessorEnded: the job that it replies to ended without success.
	FailPredecessorEnded
	// FailAlreadyPresent: the content was there, and it is no effect of the job.
	FailAlreadyPresent
	// FailHeld: the start must wait (for a hold, a content lock, or a shutdown). It
	// costs no attempt and is never stored as a job's error.
	FailHeld
)

// String returns the contract's name of the kind.
func (k FailureKind) String() string { return name(kindNames[:], uint8(k)) }

var kindNames = [...]string{
	FailAuth: "AUTH", FailPermanent: "PERMANENT", FailRateLimited: "RATE_LIMITED",
	FailTransient: "TRANSIENT", FailAmbiguous: "AMBIGUOUS", FailEgressDenied: "EGRESS_DENIED",
	FailExhausted: "ATTEMPTS_EXHAUSTED", FailWorkerCrash: "WORKER_CRASH",
	FailWindowOver: "WINDOW_OVER", FailPredecessorEnded: "PREDECESSOR_ENDED",
	FailAlreadyPresent: "ALREADY_PRESENT", FailHeld: "HELD",
}

// AuthCause is the reason why a refused credential holds its hold key. It is stored: values
// never change.
type AuthCause uint8

const (
	// AuthRefused: the platform refused the credential, without a more specific reason.
	AuthRefused AuthCause = iota + 1
	// AuthExpired: the credential has expired, and Fireonce cannot renew it.
	AuthExpired
	// AuthLoginEnded: the platform no longer renews the login.
	AuthLoginEnded
	// AuthRenewalLost: an answer to a renewal was lost, and the platform no longer accepts
	// the old login.
	AuthRenewalLost
	// AuthPermission: the credential is valid, but lacks a permission.
	AuthPermission
	// AuthAccountBarred: the platform has suspended, locked or closed the account.
	AuthAccountBarred
	// AuthOtherAccount: the credential belongs to an account other than the connection's.
	AuthOtherAccount
)

// String returns the contract's name of the cause.
func (c AuthCause) String() string { return name(authNames[:], uint8(c)) }

var authNames = [...]string{
	AuthRefused: "CREDENTIAL_REFUSED", AuthExpired: "CREDENTIAL_EXPIRED", AuthLoginEnded: "LOGIN_ENDED",
	AuthRenewalLost: "RENEWAL_LOST", AuthPermission: "PERMISSION_MISSING", AuthAccountBarred: "ACCOUNT_BARRED",
	AuthOtherAccount: "ACCOUNT_MISMATCH",
}

// Result is how an attempt ended. An attempt with the zero Result is still open.
type Result uint8

const (
	// ResultSucceeded: the platform confirmed the effect.
	ResultSucceeded Result = iota + 1
	// ResultRejected: the platform refused; there is no effect.
	ResultRejected
	// ResultNotSent: no byte was written; there is no effect.
	ResultNotSent
	// ResultUnknown: no proof either way. It may later become any other result.
	ResultUnknown
	// ResultAccepted: the platform returned a durable handle.
	ResultAccepted
	// ResultSuperseded: unknown, and no longer open because of something else: a
	// success under the same key, a person's ruling, or the job's policy.
	ResultSuperseded
	// ResultAbsent: looks at the platform proved that there is no effect.
	ResultAbsent
)

// String returns the contract's name of the result.
func (r Result) String() string { return name(resultNames[:], uint8(r)) }

var resultNames = [...]string{
	ResultSucceeded: "SUCCEEDED", ResultRejected: "REJECTED", ResultNotSent: "NOT_SENT",
	ResultUnknown: "UNKNOWN", ResultAccepted: "ACCEPTED", ResultSuperseded: "SUPERSEDED",
	ResultAbsent: "ABSENT",
}

// Open reports whether an attempt with this result may still turn out to have
// had an effect that is not accounted for.
func (r Result) Open() bool { return r == 0 || r == ResultUnknown }

// Proof is the reason to believe that an effect exists.
type Proof uint8

const (
	// ProofResponse: the platform answered the send itself.
	ProofResponse Proof = iota + 1
	// ProofObserved: a look found it.
	ProofObserved
	// ProofKeyReplay: a send under the key of an earlier, unknown attempt was
	// answered with success.
	ProofKeyReplay
	// ProofOperator: a person decided so.
	ProofOperator
	// ProofAssumed: delivery AT_MOST_ONCE.
	ProofAssumed
)

// Direct reports whether the platform itself answered a send. Such a proof outranks
// a look, a ruling and an assumption.
func (p Proof) Direct() bool { return p == ProofResponse || p == ProofKeyReplay }

// String returns the contract's name of the proof.
func (p Proof) String() string { return name(proofNames[:], uint8(p)) }

var proofNames = [...]string{
	ProofResponse: "RESPONSE", ProofObserved: "OBSERVED", ProofKeyReplay: "KEY_REPLAY",
	ProofOperator: "OPERATOR", ProofAssumed: "ASSUMED",
}

// Ruling is a person's decision on a job whose outcome is unknown.
type Ruling uint8

const (
	// RuleSent: the effect exists.
	RuleSent Ruling = iota + 1
	// RuleNotSent: the effect does not exist, and must not be sent any more.
	RuleNotSent
	// RuleResend: the effect does not exist; send it, in a new round.
	RuleResend
	// RuleCancel: the effect does not exist, and is no longer wanted.
	RuleCancel
)

// String returns the contract's name of the ruling.
func (r Ruling) String() string { return name(rulingNames[:], uint8(r)) }

var rulingNames = [...]string{RuleSent: "SENT", RuleNotSent: "NOT_SENT", RuleResend: "RESEND", RuleCancel: "CANCEL"}

// Cause is the reason why an event was written.
type Cause uint8

const (
	CauseSubmitted        Cause = iota + 1 // a client's ScheduleJob
	CauseClaimed                           // a worker took the job
	CauseArmed                             // the intent became durable
	CauseAnswered                          // the send's own outcome
	CauseNotStarted                        // not armed: failed, held or deferred before the intent
	CauseLeaseExpired                      // the worker's lease ran out before the intent
	CauseFencePassed                       // no outcome until the fence
	CauseWindowOver                        // the start window passed
	CauseLooked                            // a look at the platform
	CausePolled                            // the platform's answer to a poll of a handle
	CausePolicy                            // the job's delivery, about an outcome that stays unknown
	CauseLateEvidence                      // an outcome that came after its attempt was given up
	CauseCancelRequested                   // a client's CancelJob
	CauseResolved                          // a person's ResolveJob
	CauseRetryRequested                    // a client's RetryJob
	CauseRescheduled                       // a client's RescheduleJob
	CauseRunNow                            // a client's RunJobNow
	CauseUpdated                           // a client's UpdateJob
	CauseDuplicateEffect                   // a second effect was seen: an alarm
	CauseRestored                          // the database was restored, and later events are unknown
	CauseEffectShared                      // another job names the same object as its effect: an alarm
	CausePredecessorEnded                  // the job that it replies to ended without success
	CauseSenderLost                        // the server that had claimed the job, or was sending it, is gone or seems to be
	CauseAlreadyPresent                    // the content was there, and it is no effect of the job
)

// String returns the contract's name of the cause.
func (c Cause) String() string { return name(causeNames[:], uint8(c)) }

var causeNames = [...]string{
	CauseSubmitted: "SUBMITTED", CauseClaimed: "CLAIMED", CauseArmed: "INTENT_STORED",
	CauseAnswered: "ANSWERED", CauseNotStarted: "NOT_STARTED", CauseLeaseExpired: "LEASE_EXPIRED",
	CauseFencePassed: "ANSWER_OVERDUE", CauseWindowOver: "WINDOW_OVER", CauseLooked: "LOOKED",
	CausePolled: "POLLED", CausePolicy: "POLICY", CauseLateEvidence: "LATE_EVIDENCE",
	CauseCancelRequested: "CANCEL_REQUESTED", CauseResolved: "RESOLVED",
	CauseRetryRequested: "RETRY_REQUESTED", CauseRescheduled: "RESCHEDULED",
	CauseRunNow: "RUN_NOW", CauseUpdated: "UPDATED", CauseDuplicateEffect: "DUPLICATE_EFFECT_SEEN",
	CauseRestored: "RESTORED", CauseEffectShared: "EFFECT_SHARED",
	CausePredecessorEnded: "PREDECESSOR_ENDED", CauseSenderLost: "SENDER_LOST",
	CauseAlreadyPresent: "ALREADY_PRESENT",
}

func name(names []string, n uint8) string {
	if int(n) >= len(names) || names[n] == "" {
		return "UNSPECIFIED"
	}
	return names[n]
}
