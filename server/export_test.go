package server

import (
	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"

	fireoncev1 "github.com/fireonce/fireonce/gen/fireonce/v1"
)

// ReasonCode lets tests see the table of errors.
func ReasonCode(r fireoncev1.ErrorReason) connect.Code { return reasonCodes[r] }

// Canonical lets tests encode a message.
func Canonical(m proto.Message) ([]byte, error) { return canonical(m.ProtoReflect()) }

// Plainly lets tests compare the short way with the contract's rules.
func Plainly(r *fireoncev1.ScheduleJobRequest) bool { return plainly(r) }
