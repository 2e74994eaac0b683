package server

import (
	"slices"
	"strings"

	"buf.build/gen/go/bufbuild/protovalidate/protocolbuffers/go/buf/validate"
	"buf.build/go/protovalidate"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/fireonce/fireonce/clients/go/fireoncev1"
	"github.com/fireonce/fireonce/internal/contract"
)

// Rules of this file: every error about a request is a list of FieldViolation, with one grammar
// of paths and with sentences (contract.Sentence).

// longestPath bounds the path of a field: a key of a map may be as long as a request.
const longestPath = 256

// violation returns one violation of the contract's rules, by a message of a type, as clients get it.
func violation(v *protovalidate.Violation, of protoreflect.MessageDescriptor) *fireoncev1.FieldViolation {
	return &fireoncev1.FieldViolation{
		Field: fieldPath(v.Proto.GetField()),
		Rule:  v.Proto.GetRuleId(), Message: contract.Sentence(v, of),
	}
}

// fieldPath returns the path of a field, or of the message around it where that path is too long.
func fieldPath(p *validate.FieldPath) string {
	for {
		path, elements := protovalidate.FieldPathString(p), p.GetElements()
		if len(path) <= longestPath || len(elements) == 0 {
			return path
		}
		last := elements[len(elements)-1]
		elements = elements[:len(elements)-1]
		if last.HasSubscript() {
			whole := proto.CloneOf(last)
			whole.ClearSubscript()
			elements = append(slices.Clip(elements), whole)
		}
		p = &validate.FieldPath{Elements: elements}
	}
}

// cut shortens a text to so many bytes, between two letters.
func cut(text string, most int) string {
	if len(text) > most {
		return strings.ToValidUTF8(text[:most], "")
	}
	return text
}

// invalid is the fault of a request that is not one of the contract. The violations are
// bounded together, and more reports that there may be others.
func invalid(more bool, found ...*fireoncev1.FieldViolation) *fault {
	f := &fault{reason: fireoncev1.ErrorReason_ERROR_REASON_REQUEST_INVALID}
	words := make([]string, 0, len(found))
	size := 0
	for _, v := range found {
		size += len(v.GetField()) + len(v.GetMessage()) + len(v.GetRule())
		if len(words) == maxViolations || size > maxViolationBytes {
			more = true
			break
		}
		f.violations = append(f.violations, v)
		words = append(words, contract.ViolationText(v))
	}
	if f.msg = cut(strings.Join(words, "; "), maxViolationBytes-len(moreViolations)); more {
		f.msg += moreViolations
	}
	return f
}
