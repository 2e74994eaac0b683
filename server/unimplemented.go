package server

import (
	"iter"

	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	fireoncev1 "github.com/fireonce/fireonce/gen/fireonce/v1"
)

// unimplemented is every RPC of the contract that is not served yet. It is
// empty when the contract is fulfilled.
var unimplemented = map[string]bool{}

// contractPackage is the package of the contract.
var contractPackage = fireoncev1.File_fireonce_v1_job_service_proto.Package()

// methods gives every RPC of the contract: of every service of its package, so that
// none is forgotten.
func methods() iter.Seq[protoreflect.MethodDescriptor] {
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
