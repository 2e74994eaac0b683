package server

import (
	"errors"
	"fmt"
	"strconv"
	"sync"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"

	fireoncev1 "github.com/fireonce/fireonce/gen/fireonce/v1"
	"github.com/fireonce/fireonce/internal/contract"
	"github.com/fireonce/fireonce/internal/wirelimit"
)

// Rules of this file: the elements of a request are counted before it is decoded, on
// each listener, so that no request becomes more objects than the contract allows.

// method is what a listener knows of an RPC before it reads a request.
type method struct {
	input protoreflect.MessageDescriptor
	plan  *wirelimit.Plan
	// get may be called by GET; stream answers with a stream.
	get, stream bool
}

// contractMethods are the RPCs of the contract, by procedure.
var contractMethods = sync.OnceValues(func() (map[string]method, error) {
	out := make(map[string]method)
	for m := range contract.Methods() {
		plan, err := wirelimit.Compile(m.Input())
		if err != nil {
			return nil, err
		}
		options, _ := m.Options().(*descriptorpb.MethodOptions)
		out[fmt.Sprintf("/%s/%s", m.Parent().FullName(), m.Name())] = method{
			input: m.Input(), plan: plan, stream: m.IsStreamingServer(),
			get: options.GetIdempotencyLevel() == descriptorpb.MethodOptions_NO_SIDE_EFFECTS,
		}
	}
	return out, nil
})

// checkElements refuses a message that has too many elements, or whose elements cannot be counted.
func (m method) checkElements(message []byte, inJSON bool, requestID string) *connect.Error {
	var err error
	if inJSON {
		err = m.plan.JSON(message)
	} else {
		err = m.plan.Binary(message)
	}
	many, broken, wrong := new(wirelimit.TooMany), new(wirelimit.Malformed), new(undecodable)
	switch {
	case err == nil:
		return nil
	case errors.As(err, &many):
		return tooMany(many).wire()
	case inJSON && errors.As(err, &broken):
		err = explainMalformed(message, broken.At, m.input)
	}
	if errors.As(err, &wrong) {
		return invalid(false, wrong.found).wire()
	}
	return errorWithoutReason(connect.CodeInvalidArgument, errBinary.found.GetMessage(), requestID)
}

func tooMany(e *wirelimit.TooMany) *fault {
	return refuse(fireoncev1.ErrorReason_ERROR_REASON_TOO_MANY_ELEMENTS,
		e.Error()+"; send fewer", "field", e.Field, "limit", strconv.Itoa(e.Limit))
}
