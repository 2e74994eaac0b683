package server

import (
	"iter"

	"google.golang.org/protobuf/reflect/protoreflect"

	fireoncev1 "github.com/fireonce/fireonce/gen/fireonce/v1"
)

// unimplemented is every RPC of the contract that is not served yet. It is
// empty when the contract is fulfilled.
var unimplemented = map[string]bool{}

// methods gives every RPC of the contract.
func methods() iter.Seq[protoreflect.MethodDescriptor] {
	return func(yield func(protoreflect.MethodDescriptor) bool) {
		for _, file := range []protoreflect.FileDescriptor{
			fireoncev1.File_fireonce_v1_job_service_proto, fireoncev1.File_fireonce_v1_connection_service_proto,
			fireoncev1.File_fireonce_v1_stats_service_proto,
		} {
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
