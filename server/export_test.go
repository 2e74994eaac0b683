package server

import (
	"context"
	"iter"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	fireoncev1 "github.com/fireonce/fireonce/gen/fireonce/v1"
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
	s.logTurnedAway(context.WithValue(ctx, keyPeer, peer), "/", refuse(reason, "no"))
}

// TurnedAwayEvery is the time that one line of the log stands for.
const TurnedAwayEvery time.Duration = turnedAwayEvery

// KeyKept is the time within which a revocation takes effect.
const KeyKept time.Duration = keyKept

// UseNoted is how often the last use of a key is written down.
const UseNoted time.Duration = useNoted
