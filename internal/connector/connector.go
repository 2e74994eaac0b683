// Package connector holds the contract between the engine and the code for one
// platform. Connectors classify; the engine decides. They send through package transport
// and share package kit.
//
// The promise that every connector keeps, and that connectortest checks at the
// socket: one commit request per attempt. No retry, no redirect, no re-send by
// a transport, nothing on the wire before Publish that has an effect.
package connector

import (
	"context"
	"time"

	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/internal/redact"
)

// Connector is the code for one platform. Its methods may be called concurrently from
// many goroutines.
type Connector interface {
	// Describe describes the connector. Constant.
	Describe() Description
	// Check validates a connection's settings and credential, before they are stored
	// and again before they are used. It fails with *InputError, and with *Refusal of
	// kind HELD if it must ask another process and cannot.
	Check(settings []byte, cred Credential) (Capability, error)
	// Prepare is pure: it validates the payload and freezes the bytes that every
	// attempt under one effect key sends. Equal requests return equal bytes. It fails
	// as Check does; a *Refusal comes with the hold key.
	Prepare(r Request) (Prepared, error)
	// Open prepares everything for one commit (dial, TLS handshake), without any
	// effect. It fails with *Refusal; any other error counts as transient. The context
	// bounds Open only, never the session.
	Open(ctx context.Context, o Opening) (Session, error)
}

// Session is one opened connection for one attempt.
type Session interface {
	// Publish makes the attempt's one commit request and classifies the answer. It
	// returns by AnswerBy. It always returns an outcome: an answer that it does not
	// understand is job.ResultUnknown.
	Publish(c Commit) job.Outcome
	// Close releases the connection. Safe to call twice and after Publish.
	Close()
}

// Uploader is a session that has more to send than a usual request.
type Uploader interface {
	Session
	// SendTime is how long the attempt may take to send its data, first byte to last;
	// less than job.SendTimeout means job.SendTimeout. The engine reads it before it
	// writes the intent, and bounds it by job.MaxSendTimeout. KEYED targets that know a
	// key for less than four hours always get the usual time.
	SendTime() time.Duration
}

// Owned is a session that learns from the platform, as it opens, which account it acts
// for.
type Owned interface {
	Session
	// Account names the account as Capability.Identity would. Empty: not known.
	Account() string
}

// Idler is a connector that keeps connections open between jobs.
type Idler interface {
	// HasIdle reports whether any connection lies idle, to any target.
	HasIdle() bool
	// OpenIdle is Open on an existing idle connection; nil: there is none. It does not
	// dial and does not wait. The session has the connection alone, until Close puts it
	// back unused. For KEYED only: a used connection may be reset as the request
	// starts.
	OpenIdle(o Opening) Session
}

// Settler returns the settle times of one connection's target, without its credential:
// the value that Check puts into Capability.Traits. It fails as Check does.
type Settler interface {
	Traits(settings []byte) (job.Traits, error)
}

// Prober is a connector whose targets differ in what they can promise, and must be
// asked for it (Capability.Unsure).
type Prober interface {
	// Probe asks the target, read-only, and returns what Check would return if it knew.
	// It caches the answer for a while. The engine calls Probe only before a job's
	// first arm, because the class is frozen then. It fails with *Refusal; any other
	// error counts as transient.
	Probe(ctx context.Context, o Opening) (job.Traits, error)
}

// Limiter is a connector whose targets have limits of their own, which it learns when it asks them
// for something else.
type Limiter interface {
	// Limits compares a request that Prepare accepts with its target's limits, as far as they
	// are known. It asks nothing. It fails with *InputError if the target stated a limit
	// that the request exceeds, and returns the limits that may be exceeded.
	Limits(r Request) ([]Over, error)
}

// Over is a limit that a request may exceed.
type Over struct {
	Field string // e.g. "payload.social_post.text"
	Msg   string // a sentence without its period, for a person
}

// Tester is a connector that can ask, without any effect, which account a credential
// belongs to.
type Tester interface {
	// Test makes a read-only call with settings and credential. It fails with *Refusal;
	// any other error counts as transient. It ignores Prepared and Job of the opening.
	Test(ctx context.Context, o Opening) (Tested, error)
}

// Tested is what a connection's test has shown.
type Tested struct {
	// Identity names the account, stable over renames: the value of Capability.Identity
	// or Identifier.AccountOf. Empty: the platform does not disclose it.
	Identity string
	// Detail describes the result in a sentence, in a user's words, e.g. the account's
	// name.
	Detail string
}

// Poller is a connector of class HANDLE: it asks for the state of a handle. Read-only.
type Poller interface {
	Settler
	// Poll returns the state that the platform reports. job.ResultUnknown means that it
	// reports none; with job.FailAuth it means that the credential was refused, which
	// holds the account.
	Poll(ctx context.Context, o Opening, handle string) job.Outcome
}

// Observer is a connector of class OBSERVABLE (or of class HANDLE if a handle can get
// lost): it looks whether an effect exists. Read-only.
type Observer interface {
	Settler
	// Watermark reads the position from which a later look must read. It is called
	// before the arm.
	Watermark(ctx context.Context, o Opening) (string, error)
	// Observe looks for the effect inside [the first attempt's watermark, the
	// fence of the last]. A read that failed or was incomplete is
	// job.SawInconclusive, never an absence (see Unseen); with job.FailAuth it means that
	// the credential was refused, which holds the account.
	Observe(ctx context.Context, o Opening, l Look) job.Observation
}

// Backdater is an Observer that recognizes content by itself, also in objects that no
// attempt of ours has made.
type Backdater interface {
	Observer
	// Backdate returns a watermark as Watermark would have read it that much earlier,
	// as far as looks with Look.Any need it. It fails for a watermark that it cannot
	// read.
	Backdate(watermark string, by time.Duration) (string, error)
}

// FindsContent reports whether a connector can look for content before there is an attempt,
// on a connection of a class.
func FindsContent(c Connector, class job.Class) bool {
	_, ok := c.(Backdater)
	return ok && class == job.Observable
}

// Identifier is an Observer that learns the account from the platform with each
// watermark, because Check does not know it (Capability.Identity).
type Identifier interface {
	// AccountOf names the account that a watermark was read from, the same for every
	// connection to it. Content locks and the ownership of objects are per account.
	// Empty: not known.
	AccountOf(watermark string) string
}

// Look is what an Observer looks for.
type Look struct {
	// First is the round's first attempt: the look ends at its watermark, and looks for
	// its frozen bytes. An object that is new to the reader, but was made before the
	// watermark, may belong to another job with an unknown outcome: it is not certainly
	// ours.
	First job.Attempt
	// Attempts are the attempts from First on that a verdict is about, in their order.
	Attempts []job.Attempt
	// Fence is the time, by the store's clock, from which the last attempt can no
	// longer act; an object that appeared later is not ours.
	Fence time.Time
	// Now is the store's clock as the look begins, or a moment before. Until uses it to
	// convert Fence to the platform's clock. Zero: not known.
	Now time.Time
	// Any asks for any object that certainly has the content, whichever account made
	// it: the newest of several is job.SawPresent. What cannot be compared, such as
	// files, is never certain. There is no attempt then: First has the frozen bytes, a
	// watermark of Backdate and its time, and Taken is nil.
	Any bool
	// Taken reports which of these external ids are another job's effect already; they
	// are no candidates. An error makes the look inconclusive.
	Taken func(ctx context.Context, externalIDs []string) (map[string]bool, error)
}

// Description describes a connector, for users.
type Description struct {
	// Name is the value of Connection.connector, e.g. "webhook".
	Name string
	// Payloads are the kinds of payload it sends, as the contract's oneof names them.
	Payloads []string
	// Classes are the effect classes that a connection of it can have.
	Classes []job.Class
	// Credentials are the kinds of credential it takes, as the members of the
	// contract's Credential.kind are named, and "headers". Empty: none.
	Credentials []string
	// CredentialRequired reports whether a connection of it needs a credential to do
	// anything.
	CredentialRequired bool
	// NoSettings is set if a connection of it has none.
	NoSettings bool
	// Retry is how the jobs of a connection that states nothing are tried again. What it leaves
	// unset has the general defaults.
	Retry job.RetryPolicy
	// Promise is what a user can rely on, in a sentence.
	Promise string
	// EndlessKeys is set if its targets never forget a key: the same key is the same
	// effect forever, also after its job was removed.
	EndlessKeys bool
	// Replies is set if its jobs may answer other jobs (Request.ReplyTo).
	Replies bool
}

// Capability is what one connection's target can do.
type Capability struct {
	job.Traits
	// Unsure is set if the target must be asked for its traits (Prober); the traits
	// here hold if it cannot be.
	Unsure bool
	// Identity names the account that the credential belongs to, where known.
	Identity string
}

// Request is the input that Prepare turns into frozen bytes.
type Request struct {
	EffectKey   string
	Settings    []byte // the connector's settings message of the contract, encoded
	PayloadKind string
	Payload     []byte // the contract's Payload message, encoded
	// ReplyTo is the external id that this effect answers; empty: none.
	ReplyTo string
	// Due is the job's start time, the same for each of its attempts unless a person
	// moves it. Zero: not known, as while a job is being scheduled.
	Due time.Time
	// Credential opens the connection's credential. Prepare calls it only to remove secrets
	// from what another program says about the request. Nil: it cannot be opened.
	Credential func() (Credential, error)
	// Offline keeps Prepare from asking another program: a connector that needs one
	// fails as if it could not be reached.
	Offline bool
}

// Prepared is a validated, frozen request.
type Prepared struct {
	// HoldKey names the scope that a rate limit or refused credential of this target
	// holds.
	HoldKey string
	// Frozen is what each attempt sends, without the parts that must differ between
	// attempts (a timestamp, a signature). Its SHA-256 is the request digest.
	Frozen []byte
	// Gate is the content's fingerprint, the key of the content lock; OBSERVABLE only.
	// Empty if each object carries its effect key at the platform: such objects cannot
	// be confused.
	Gate []byte
	// OpenTime is how long an Open that fetches files may take; zero: the usual time.
	// Bounded by job.MaxOpenTimeout.
	OpenTime time.Duration
}

// Opening is what a connector needs to talk to the platform for one job.
type Opening struct {
	redact.All

	Job        job.ID
	Connection job.ID
	Settings   []byte
	Class      job.Class
	Credential Credential
	Prepared   Prepared
	// Fresh asks for a connection that was never used: the peer can reset a reused one
	// as the request starts, which is ambiguous. KEYED may reuse.
	Fresh bool
	// Steady reads a clock that runs like true time whatever this machine's clock is set to,
	// the same at all servers. Only differences count. Nil: there is none, as in the test of
	// a connection.
	Steady func(ctx context.Context) (time.Time, error)
}

// Commit is the one commit request of one attempt.
type Commit struct {
	Attempt   int
	EffectKey string
	// Traceparent and Tracestate are what the request carries to be part of its job's trace
	// (W3C Trace Context), where the target is the user's own; empty: nothing.
	Traceparent, Tracestate string
	// SendBy is the instant by which the last byte is written, AnswerBy the one
	// by which the answer is complete. Both carry a monotonic reading.
	SendBy, AnswerBy time.Time
	// MaySend is called directly before the first byte. An error means that time has
	// run out or the clock cannot be trusted: write nothing and return
	// job.ResultNotSent.
	MaySend func() error
	// SaveHandle makes a prepare step's handle durable before the next step. After an
	// error the attempt must not go on.
	SaveHandle func(handle string) error
}
