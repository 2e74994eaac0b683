package wire

import (
	"errors"
	"fmt"
	"sync"

	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"

	"github.com/fireonce/fireonce/internal/contract"
	"github.com/fireonce/fireonce/internal/wirelimit"
)

// Rules of this file: the elements of a request are counted before it is decoded, on
// each listener, so that no request becomes more objects than the contract allows.

// Method is what a listener knows of an RPC before it reads a request.
type Method struct {
	Input protoreflect.MessageDescriptor
	plan  *wirelimit.Plan
	// Get may be called by GET; Stream answers with a stream.
	Get, Stream bool
}

// Methods are the RPCs of the contract, by procedure.
var Methods = sync.OnceValues(func() (map[string]Method, error) {
	out := make(map[string]Method)
	for m := range contract.Methods() {
		plan, err := wirelimit.Compile(m.Input())
		if err != nil {
			return nil, err
		}
		options, _ := m.Options().(*descriptorpb.MethodOptions)
		out[fmt.Sprintf("/%s/%s", m.Parent().FullName(), m.Name())] = Method{
			Input: m.Input(), plan: plan, Stream: m.IsStreamingServer(),
			Get: options.GetIdempotencyLevel() == descriptorpb.MethodOptions_NO_SIDE_EFFECTS,
		}
	}
	return out, nil
})

// CheckElements refuses a message that has too many elements, or whose elements cannot be counted. It
// fails with *wirelimit.TooMany or *Undecodable.
func (m Method) CheckElements(message []byte, inJSON bool) error {
	var err error
	if inJSON {
		err = m.plan.JSON(message)
	} else {
		err = m.plan.Binary(message)
	}
	broken := new(wirelimit.Malformed)
	switch {
	case err == nil, errors.As(err, new(*wirelimit.TooMany)):
		return err
	case inJSON && errors.As(err, &broken):
		err = undecodable(contract.ExplainMalformed(message, broken.At, m.Input))
	}
	if errors.As(err, new(*Undecodable)) {
		return err
	}
	return ErrBinary
}
