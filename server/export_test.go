package server

import (
	"context"
	"errors"
	"iter"
	"log/slog"
	"slices"
	"strconv"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	"github.com/fireonce/fireonce/clients/go/fireoncev1"
	"github.com/fireonce/fireonce/internal/contract"
	"github.com/fireonce/fireonce/internal/inflight"
	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/internal/vault"
	"github.com/fireonce/fireonce/store"
)

// The conversions of wire_numbers.go.
var (
	FailureToWire   = failureToWire
	FailureFromWire = failureFromWire
	CauseToWire     = causeToWire
)

// ReasonCode lets tests see the table of errors.
func ReasonCode(r fireoncev1.ErrorReason) connect.Code { return reasonCodes[r] }

// HoldPreview takes a project's place for a preview, until release is called.
func (s *Server) HoldPreview(ctx context.Context, project string) (release func(), err error) {
	hold, err := s.previews.Take(ctx, project, 1)
	return hold.Release, err
}

// EtagOf lets tests name a version.
func EtagOf(id job.ID, version int64) string { return etagOf(id, version) }

// ConnectionCacheGet lets tests read connections through a cache whose reads have a time limit.
func ConnectionCacheGet(s store.Connections, limit time.Duration) func(context.Context, string, job.ID) (*store.Connection, error) {
	return newConnectionCache(s, limit).connection
}

// BeginAnswer does what each call does that will show jobs.
func (s *Server) BeginAnswer(ctx context.Context) { s.newJobConverter(ctx, DefaultProject) }

// Methods lets tests go through the contract.
func Methods() iter.Seq[protoreflect.MethodDescriptor] { return contract.Methods() }

// ScopeOf lets tests see what a procedure needs.
func ScopeOf(procedure string) string { return accessOf[procedure].scope }

// ReceiptOf lets tests see which scope shows a procedure's whole answer.
func ReceiptOf(procedure string) (scope string, classified bool) {
	a, classified := accessOf[procedure]
	if a.keeps != nil {
		scope = a.reads()
	}
	return scope, classified
}

// MisnamedKept lets tests see the fields that a receipt names and the answer does not
// have.
func MisnamedKept(procedure string, answer protoreflect.MessageDescriptor) []string {
	return misnamed(answer, accessOf[procedure].keeps)
}

func misnamed(m protoreflect.MessageDescriptor, keeps keptFields) (out []string) {
	for name, within := range keeps {
		field := m.Fields().ByName(name)
		switch {
		case field == nil:
			out = append(out, string(m.Name())+"."+string(name))
		case within != nil:
			out = append(out, misnamed(field.Message(), within)...)
		}
	}
	return out
}

// IsContent lets tests see which fields are content.
func IsContent(field protoreflect.FieldDescriptor) bool {
	return slices.Contains(contentOf[field.ContainingMessage().FullName()], field.Name())
}

// MisnamedContent lets tests see what the table of content names and the contract does
// not have.
func MisnamedContent(known func(protoreflect.FullName) bool) (out []string) {
	for name, fields := range contentOf {
		found, err := protoregistry.GlobalTypes.FindMessageByName(name)
		if err != nil || !known(name) {
			out = append(out, string(name))
			continue
		}
		for _, field := range append(fields, contentWithheld) {
			if found.Descriptor().Fields().ByName(field) == nil {
				out = append(out, string(name)+"."+string(field))
			}
		}
	}
	return out
}

// LogTurnedAway lets tests turn many calls away.
func (s *Server) LogTurnedAway(ctx context.Context, peer string, reason fireoncev1.ErrorReason) {
	s.logTurnedAway(withPeer(ctx, remoteAddr(peer+":9")), "/", refuse(reason, "no"))
}

// TurnedAwayEvery is the time that one line of the log stands for.
const TurnedAwayEvery time.Duration = turnedAwayEvery

// KeyKept is the time within which a revocation takes effect.
const KeyKept time.Duration = keyMaxAge

// UseWritten is how often the last use of a key is written down.
const UseWritten time.Duration = useWritten

// MeasureEvery is the time between two measurements of what a project stores.
const MeasureEvery = measureEvery

// Limit lets tests see a limit.
func (q Quotas) Limit(project string, name Quota) int64 { return q.limit(project, name) }

// PeerOf lets tests name peers.
func PeerOf(addr string) (name string, loopback bool) { return peerOf(addr) }

// MaxBucketsKept bounds the buckets that are kept.
const MaxBucketsKept = maxBucketsKept

// FillBuckets uses so many buckets, each once, and returns how many are kept.
func FillBuckets(now func() time.Time, n int) int {
	b := newBuckets(now)
	for i := range n {
		take(b.bucket(strconv.Itoa(i), 1, 1), now())
	}
	return len(b.of)
}

// Admission lets tests take jobs of one project.
type Admission struct{ a *admission }

// NewAdmission makes one on a store.
func NewAdmission(s store.Quotas, q Quotas, now func() time.Time) Admission {
	return Admission{newAdmission(s, q, now, time.Minute, newQuotaLog(slog.New(slog.DiscardHandler), now))}
}

// Take takes so many jobs.
func (a Admission) Take(ctx context.Context, jobs int64) error {
	return a.a.take(ctx, "p", store.StoredJobs{Jobs: jobs})
}

// Settle ends what was taken.
func (a Admission) Settle(taken, kept int64) {
	a.a.settle("p", store.StoredJobs{Jobs: taken}, store.StoredJobs{Jobs: kept})
}

// Used is what counts now.
func (a Admission) Used() int64 {
	a.a.mu.Lock()
	defer a.a.mu.Unlock()
	return a.a.projects["p"].used().Jobs
}

// Wait waits for the measurement under way.
func (a Admission) Wait() { a.a.work.Wait() }

// Close ends it.
func (a Admission) Close() { a.a.close() }

// PatternSentence lets tests see what a pattern of the contract demands in words.
func PatternSentence(pattern string) string { return contract.PatternSentence(pattern) }

// InRequest lets tests see the path that an error about settings has.
func InRequest(err error, procedure string) error { return inRequest(err, procedure) }

// FieldOf lets tests see the field of an error that is about one.
func FieldOf(err error) (field string, known bool) {
	f := new(fault)
	if !errors.As(err, &f) || len(f.violations) != 1 {
		return "", false
	}
	return f.violations[0].GetField(), true
}

// Samples are errors whose causes take more than one call to bring about, each as the
// server makes it.
func Samples() map[fireoncev1.ErrorReason]error {
	id := job.ID{15: 9}
	return map[fireoncev1.ErrorReason]error{
		fireoncev1.ErrorReason_ERROR_REASON_OAUTH_REFUSED: refuse(fireoncev1.ErrorReason_ERROR_REASON_OAUTH_REFUSED,
			"X does not accept the login's code; log in again"),
		fireoncev1.ErrorReason_ERROR_REASON_SEALING_KEY_OUTDATED: refuse(fireoncev1.ErrorReason_ERROR_REASON_SEALING_KEY_OUTDATED,
			"this server seals with key 01 until it is restarted; its key file names 02 first", "sealing_key_id", "01", "next_sealing_key_id", "02"),
		fireoncev1.ErrorReason_ERROR_REASON_CREDENTIAL_UNSEALABLE: unsealable(store.Connection{ID: id}, vault.ErrKeyID),
		fireoncev1.ErrorReason_ERROR_REASON_OAUTH_MISMATCH: refuse(fireoncev1.ErrorReason_ERROR_REASON_OAUTH_MISMATCH,
			"the code came to another redirect URL than the login's, so it may be of another platform; it was sent nowhere, log in again"),
		fireoncev1.ErrorReason_ERROR_REASON_CLOCK_DOUBTED:    store.ErrClockSuspect,
		fireoncev1.ErrorReason_ERROR_REASON_OAUTH_UNFINISHED: unfinished("X could not be asked for the account's tokens; log in again"),
		fireoncev1.ErrorReason_ERROR_REASON_PREDECESSOR_ENDED: &job.StateError{
			Current: job.Canceled, Cause: job.PredecessorStands, Predecessor: id,
			Why: "job " + id.String() + ", which it replies to, ended as FAILED: retry that one first",
		},
		fireoncev1.ErrorReason_ERROR_REASON_ATTEMPTS_EXHAUSTED: &job.StateError{
			Current: job.Failed, Cause: job.NoAttemptLeft, Why: "the job has used up every attempt it can have",
		},
		fireoncev1.ErrorReason_ERROR_REASON_ATTEMPT_UNDER_WAY: &job.StateError{
			Current: job.Failed, Cause: job.AttemptStands, Why: "an attempt turned out to be under way at the platform after the job had ended",
		},
		fireoncev1.ErrorReason_ERROR_REASON_TOO_MANY_STREAMS: refuse(fireoncev1.ErrorReason_ERROR_REASON_TOO_MANY_STREAMS,
			"64 event streams of this project are open, and no more are allowed", "quota", string(QuotaStreams), "limit", "64"),
		fireoncev1.ErrorReason_ERROR_REASON_SERVER_BUSY: refuse(fireoncev1.ErrorReason_ERROR_REASON_SERVER_BUSY,
			"the server works on as many bytes of requests as it may, and none became free in 2s; repeat the call unchanged"),
		fireoncev1.ErrorReason_ERROR_REASON_TOO_MANY_CALLS: tooManyCalls(QuotaCalls, 100, 250*time.Millisecond,
			"the project makes more than 100 calls a second; the next one may pass in 250ms"),
		fireoncev1.ErrorReason_ERROR_REASON_STORE_UNAVAILABLE: store.ErrUnavailable,
		fireoncev1.ErrorReason_ERROR_REASON_SHUTTING_DOWN:     shuttingDown(),
	}
}

// TakeScans takes all scans of the server under other projects' names, and makes every further
// scan fail without a wait. The function releases them.
func (s *Server) TakeScans(ctx context.Context) (release func(), err error) {
	var projects []string
	for i := range maxScans {
		projects = append(projects, "other project "+strconv.Itoa(i))
	}
	return s.TakeScan(ctx, projects...)
}

// TakeScan takes a scan for each project, and makes every scan fail without a wait that must
// wait. The function releases them.
func (s *Server) TakeScan(ctx context.Context, projects ...string) (release func(), err error) {
	s.store.scans = inflight.New(maxScans, time.Nanosecond)
	var holds []inflight.Hold
	for _, project := range projects {
		h, err := s.store.scans.Take(ctx, project, 1)
		if err != nil {
			return nil, err
		}
		holds = append(holds, h)
	}
	return func() {
		for i := range holds {
			holds[i].Release()
		}
	}, nil
}

// ScanStore returns the store of the server's handlers.
func (s *Server) ScanStore() Store { return s.store }

// ReceiverOf lets tests see which receiver an effect key is taken at.
func ReceiverOf(connector, holdKey string) string { return receiverOf(connector, holdKey) }

// NamesNewDestination lets tests compare settings.
func NamesNewDestination(connector string, old, settings []byte) bool {
	return namesNewDestination(connector, old, settings)
}

// ResumePlans goes on with plans, as RunPlans does.
func (s *Server) ResumePlans(ctx context.Context, idle time.Duration) error {
	return s.resumePlans(ctx, idle)
}
