package server

import (
	"context"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// withhold takes out of an answer what the caller may not read. It is the only place
// that does, for both listeners.
func withhold(who caller, procedure string, answer any) {
	m, ok := answer.(proto.Message)
	if !ok || who.all {
		return
	}
	if a := accessOf[procedure]; a.keeps != nil && !who.has(a.reads()) {
		trim(m.ProtoReflect(), a.keeps)
	}
	if !who.has(ScopePayloadsRead) {
		withholdContent(m.ProtoReflect())
	}
}

// trim clears every field that is not kept.
func trim(m protoreflect.Message, keeps keptFields) {
	if !m.IsValid() {
		return
	}
	m.SetUnknown(nil)
	m.Range(func(field protoreflect.FieldDescriptor, value protoreflect.Value) bool {
		switch within, stays := keeps[field.Name()]; {
		case !stays:
			m.Clear(field)
		case within == nil:
		case field.IsList():
			for i := range value.List().Len() {
				trim(value.List().Get(i).Message(), within)
			}
		default:
			trim(value.Message(), within)
		}
		return true
	})
}

// withholding is the interceptor that calls withhold. It leaves streams alone: a test makes sure
// that each has a receipt that is whole, and content is withheld as it is sent (feed.send).
func withholding(next connect.UnaryFunc) connect.UnaryFunc {
	return func(ctx context.Context, req connect.AnyRequest) (connect.AnyResponse, error) {
		res, err := next(ctx, req)
		if err == nil {
			withhold(callerOf(ctx), req.Spec().Procedure, res.Any())
		}
		return res, err
	}
}
