package server

import (
	"context"
	"errors"
	"sync"

	"buf.build/go/protovalidate"
	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"

	"github.com/fireonce/fireonce/clients/go/fireoncev1"
	"github.com/fireonce/fireonce/internal/contract"
	"github.com/fireonce/fireonce/server/wire"
)

// Rules of this file: the error names the rules that a request breaks. Its size is bounded, and
// so is the work for it: a violation costs a hundred times the element that has it. The error of
// a request of few elements names all violations, that of one of many names the first.

const (
	// maxViolations and maxViolationBytes bound the violations that an error names, and their
	// bytes.
	maxViolations     = 20
	maxViolationBytes = 4 << 10
	// maxElementsChecked is the number of elements of lists and maps up to which all violations
	// are looked for.
	maxElementsChecked = 2 * maxViolations
	// moreViolations is added to the error when there may be others.
	moreViolations = "; there may be more"
)

// ruleViolations are the rules that a request breaks; nil: none.
type ruleViolations struct {
	found *protovalidate.ValidationError
	of    protoreflect.MessageDescriptor // of what breaks them
	body  *fireoncev1.FieldViolation     // of a body in JSON; nil: none
	// more reports that there may be others.
	more bool
}

// accept makes a message what it is stored as, and checks it: a body in JSON becomes text first, so
// that the rules of texts apply to it. all allows to look for more than the first violation. The error
// is one of the rules themselves.
func accept(rules protovalidate.Validator, m proto.Message, all bool) (*ruleViolations, error) {
	if wrong := contract.CanonicalBody(m); wrong != nil {
		return &ruleViolations{body: wrong, more: true}, nil
	}
	return violationsOf(rules, m, all)
}

// violationsOf checks a message as accept does.
func violationsOf(rules protovalidate.Validator, m proto.Message, all bool) (*ruleViolations, error) {
	first := rules.Validate(m, protovalidate.WithFailFast())
	if first == nil {
		return nil, nil
	}
	out := &ruleViolations{more: true, of: m.ProtoReflect().Descriptor()}
	if !errors.As(first, &out.found) {
		return nil, first
	}
	if all && elements(m.ProtoReflect(), maxElementsChecked) <= maxElementsChecked {
		out.more = false
		if every := new(protovalidate.ValidationError); errors.As(rules.Validate(m), &every) {
			out.found = every
		}
	}
	if len(out.found.Violations) > maxViolations {
		out.found.Violations, out.more = out.found.Violations[:maxViolations], true
	}
	return out, nil
}

// elements counts the elements of lists and maps, and stops above limit.
func elements(m protoreflect.Message, limit int) (n int) {
	m.Range(func(fd protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		switch {
		case fd.IsMap():
			n += v.Map().Len()
		case fd.IsList():
			n += v.List().Len()
			for i := 0; fd.Message() != nil && i < v.List().Len() && n <= limit; i++ {
				n += elements(v.List().Get(i).Message(), limit-n)
			}
		case fd.Message() != nil:
			n += elements(v.Message(), limit-n)
		}
		return n <= limit
	})
	return n
}

// fault is the error that a client gets.
func (b *ruleViolations) fault() *fault {
	if b.body != nil {
		return invalid(b.more, b.body)
	}
	return invalid(b.more, convertAll(b.found.Violations, func(v *protovalidate.Violation) *fireoncev1.FieldViolation {
		return violation(v, b.of)
	})...)
}

// ruleChecker checks requests by the contract's rules.
type ruleChecker struct{ server *Server }

// WrapUnary implements connect.Interceptor.
func (r ruleChecker) WrapUnary(next connect.UnaryFunc) connect.UnaryFunc {
	return func(ctx context.Context, req connect.AnyRequest) (connect.AnyResponse, error) {
		if err := r.server.checkRules(req.Any()); err != nil {
			return nil, err
		}
		return next(ctx, req)
	}
}

// WrapStreamingHandler implements connect.Interceptor.
func (r ruleChecker) WrapStreamingHandler(next connect.StreamingHandlerFunc) connect.StreamingHandlerFunc {
	return func(ctx context.Context, conn connect.StreamingHandlerConn) error {
		return next(ctx, checkedConn{conn, r.server})
	}
}

// WrapStreamingClient implements connect.Interceptor.
func (ruleChecker) WrapStreamingClient(next connect.StreamingClientFunc) connect.StreamingClientFunc {
	return next
}

// checkedConn is a stream whose requests are checked.
type checkedConn struct {
	connect.StreamingHandlerConn
	server *Server
}

// Receive implements connect.StreamingHandlerConn.
func (c checkedConn) Receive(m any) error {
	if err := c.StreamingHandlerConn.Receive(m); err != nil {
		return err
	}
	return c.server.checkRules(m)
}

// changing has the requests that change something. A read ignores fields that it does not know,
// unless it counts by them.
var changing = sync.OnceValue(func() map[protoreflect.FullName]bool {
	out := make(map[protoreflect.FullName]bool)
	for m := range contract.Methods() {
		options, _ := m.Options().(*descriptorpb.MethodOptions)
		reads := options.GetIdempotencyLevel() == descriptorpb.MethodOptions_NO_SIDE_EFFECTS
		out[m.Input().FullName()] = !reads && !m.IsStreamingServer()
	}
	return out
})

// checkRules refuses a request that breaks the contract's rules, or asks with fields that this
// server does not know to change something.
func (s *Server) checkRules(req any) error {
	m, ok := req.(proto.Message)
	if !ok {
		return wire.ErrNoMessage
	}
	if wrong := wire.UndecodableOf(m); wrong != nil {
		return invalid(false, wrong).wire()
	}
	if changing()[m.ProtoReflect().Descriptor().FullName()] {
		if f := unknownAt("", m); f != nil {
			return f.wire()
		}
	}
	broken, err := accept(s.rules, m, true)
	switch {
	case err != nil:
		return connect.NewError(connect.CodeInvalidArgument, err)
	case broken != nil:
		return broken.fault().wire()
	default:
		return nil
	}
}
