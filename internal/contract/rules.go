package contract

import (
	"fmt"
	"iter"
	"sync"

	"buf.build/go/protovalidate"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	"github.com/fireonce/fireonce/clients/go/adminv1"
	"github.com/fireonce/fireonce/clients/go/connectionsv1"
	"github.com/fireonce/fireonce/clients/go/fireoncev1"
	"github.com/fireonce/fireonce/clients/go/schedulesv1"
	"github.com/fireonce/fireonce/clients/go/subscriptionsv1"
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

// Packages returns the packages of the API. A plain caller needs the first alone, which imports none
// of the others.
func Packages() []protoreflect.FullName {
	return []protoreflect.FullName{
		fireoncev1.File_fireonce_v1_job_service_proto.Package(),
		schedulesv1.File_fireonce_schedules_v1_schedule_service_proto.Package(),
		subscriptionsv1.File_fireonce_subscriptions_v1_subscription_service_proto.Package(),
		connectionsv1.File_fireonce_connections_v1_connection_service_proto.Package(),
		adminv1.File_fireonce_admin_v1_access_service_proto.Package(),
	}
}

// Files returns the files of the API's packages.
func Files() iter.Seq[protoreflect.FileDescriptor] {
	return func(yield func(protoreflect.FileDescriptor) bool) {
		for _, name := range Packages() {
			more := true
			protoregistry.GlobalFiles.RangeFilesByPackage(name, func(file protoreflect.FileDescriptor) bool {
				more = yield(file)
				return more
			})
			if !more {
				return
			}
		}
	}
}

// Methods returns every RPC of every service of the API, so that none is forgotten.
func Methods() iter.Seq[protoreflect.MethodDescriptor] {
	return func(yield func(protoreflect.MethodDescriptor) bool) {
		for file := range Files() {
			for i := range file.Services().Len() {
				list := file.Services().Get(i).Methods()
				for j := range list.Len() {
					if !yield(list.Get(j)) {
						return
					}
				}
			}
		}
	}
}
