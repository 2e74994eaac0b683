package contract

import (
	"fmt"
	"iter"
	"slices"
	"sync"

	"buf.build/go/protovalidate"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	"github.com/fireonce/fireonce/clients/go/adminv1"
	"github.com/fireonce/fireonce/clients/go/fireoncev1"
)

// Rules returns what checks the rules of all requests. They apply to every job: to clients'
// requests and to the requests that schedules make from their templates. The rules of a message
// are compiled when it is first checked, in 20 ms for ScheduleJob: all of them would take most of
// the time of a start. A test shows that all compile.
var Rules = sync.OnceValues(func() (protovalidate.Validator, error) {
	v, err := protovalidate.New()
	if err != nil {
		return nil, fmt.Errorf("the contract's rules: %w", err)
	}
	return v, nil
})

// served are the packages whose services a server has.
var served = []protoreflect.FullName{
	fireoncev1.File_fireonce_v1_job_service_proto.Package(), adminv1.File_fireonce_admin_v1_server_service_proto.Package(),
}

// Methods returns every RPC of every service of the contract's packages, so that none is
// forgotten.
func Methods() iter.Seq[protoreflect.MethodDescriptor] {
	return func(yield func(protoreflect.MethodDescriptor) bool) {
		protoregistry.GlobalFiles.RangeFiles(func(file protoreflect.FileDescriptor) bool {
			if !slices.Contains(served, file.Package()) {
				return true
			}
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
