package wire

import (
	"errors"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/fireonce/fireonce/clients/go/fireoncev1"
	"github.com/fireonce/fireonce/internal/contract"
)

// Rules of this file: JSON is read strictly, as internal/contract reads it, and answers have the values
// that are false, 0 or empty.

// strictJSON refuses fields that the contract does not have. A misspelt schedule_time that is
// ignored would send immediately.
type strictJSON struct{ name string }

// Name implements connect.Codec.
func (c strictJSON) Name() string { return c.name }

// ErrNoMessage is the error for a value that no codec can read or write.
var ErrNoMessage = errors.New("not a protobuf message")

// Marshal implements connect.Codec.
func (strictJSON) Marshal(v any) ([]byte, error) {
	m, ok := v.(proto.Message)
	if !ok {
		return nil, ErrNoMessage
	}
	return answers.Marshal(m)
}

// answers writes false, 0 and empty, too: clients would overlook a "created" that is missing. A
// message that is not set stays out.
var answers = protojson.MarshalOptions{EmitDefaultValues: true}

// Unmarshal implements connect.Codec.
func (strictJSON) Unmarshal(data []byte, v any) error {
	m, ok := v.(proto.Message)
	if !ok {
		return ErrNoMessage
	}
	return markUndecodable(m, readJSON(data, m))
}

// readJSON decodes a message.
func readJSON(text []byte, m proto.Message) error {
	if wrong := contract.ReadJSON(text, m); wrong != nil {
		return undecodable(wrong)
	}
	return nil
}

// undecodable is a fault of a request in JSON.
func undecodable(wrong *contract.JSONError) *Undecodable {
	return &Undecodable{wrong.Violation()}
}

// Undecodable is a request that cannot be decoded as a message of the contract. Its words
// are fit for a client.
type Undecodable struct{ Found *fireoncev1.FieldViolation }

// Error implements error.
func (e *Undecodable) Error() string { return contract.ViolationText(e.Found) }
