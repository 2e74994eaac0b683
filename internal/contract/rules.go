package contract

import (
	"fmt"
	"iter"
	"sync"

	"buf.build/go/protovalidate"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	fireoncev1 "github.com/fireonce/fireonce/gen/fireonce/v1"
)

// Rules compiles the rules of all requests once, so that a broken rule stops the start and not
// a call. They apply to every job: to clients' requests and to the requests that schedules make
// from their templates.
var Rules = sync.OnceValues(func() (protovalidate.Validator, error) {
	var requests []protoreflect.MessageDescriptor
	for m := range Methods() {
		requests = append(requests, m.Input())
	}
	v, err := protovalidate.New(protovalidate.WithMessageDescriptors(requests...))
	if err != nil {
		return nil, fmt.Errorf("compile the contract's rules: %w", err)
	}
	return v, nil
})

// contractPackage is the package of the contract.
var contractPackage = fireoncev1.File_fireonce_v1_job_service_proto.Package()

// Methods returns every RPC of every service of the contract's package, so that none is
// forgotten.
func Methods() iter.Seq[protoreflect.MethodDescriptor] {
	return func(yield func(protoreflect.MethodDescriptor) bool) {
		protoregistry.GlobalFiles.RangeFilesByPackage(contractPackage, func(file protoreflect.FileDescriptor) bool {
			for i := range file.Services().Len() {
				list := file.Services().Get(i).Methods()
				for j := range list.Len() {
					if !yield(list.Get(j)) {
						return false
					}
				}
			}
			return true
		})
	}
}
