package server

import (
	"context"
	"iter"
	"log/slog"
	"strconv"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	fireoncev1 "github.com/fireonce/fireonce/gen/fireonce/v1"
	"github.com/fireonce/fireonce/store"
)

// ReasonCode lets tests see the table of errors.
func ReasonCode(r fireoncev1.ErrorReason) connect.Code { return reasonCodes[r] }

// Canonical lets tests encode a message.
func Canonical(m proto.Message) ([]byte, error) { return canonical(m.ProtoReflect()) }

// Plainly lets tests compare the short way with the contract's rules.
func Plainly(r *fireoncev1.ScheduleJobRequest) bool { return plainly(r) }

// Methods lets tests go through the contract.
func Methods() iter.Seq[protoreflect.MethodDescriptor] { return methods() }

// ScopeOf lets tests see what a procedure needs.
func ScopeOf(procedure string) string { return scopeOf[procedure] }

// ReceiptOf lets tests see which scope shows a procedure's whole answer.
func ReceiptOf(procedure string) (scope string, classified bool) {
	r, classified := receiptOf[procedure]
	return r.scope, classified
}

// MisnamedKept lets tests see the fields that a receipt names and the answer does not
// have.
func MisnamedKept(procedure string, answer protoreflect.MessageDescriptor) []string {
	return misnamed(answer, receiptOf[procedure].keeps)
}

func misnamed(m protoreflect.MessageDescriptor, keeps kept) (out []string) {
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

// Unimplemented tells tests what is not served yet.
func Unimplemented(procedure string) bool { return unimplemented[procedure] }

// LogTurnedAway lets tests turn many calls away.
func (s *Server) LogTurnedAway(ctx context.Context, peer string, reason fireoncev1.ErrorReason) {
	s.logTurnedAway(withPeer(ctx, remoteAddr(peer+":9")), "/", refuse(reason, "no"))
}

// ConnProbes bounds the calls without a key that one connection has open.
const ConnProbes = connProbes

// TurnedAwayEvery is the time that one line of the log stands for.
const TurnedAwayEvery time.Duration = turnedAwayEvery

// KeyKept is the time within which a revocation takes effect.
const KeyKept time.Duration = keyKept

// UseNoted is how often the last use of a key is written down.
const UseNoted time.Duration = useNoted

// MeasureEvery is the time between two measurements of what a project stores.
const MeasureEvery = measureEvery

// Limit lets tests see a limit.
func (q Quotas) Limit(project string, name Quota) int64 { return q.limit(project, name) }

// PeerOf lets tests name peers.
func PeerOf(addr string) (name string, loopback bool) { return peerOf(addr) }

// MostBuckets bounds the buckets that are kept.
const MostBuckets = mostBuckets

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
	return Admission{newAdmission(s, q, now, time.Minute, newQuotaNotes(slog.New(slog.DiscardHandler), now))}
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
