package wire

import (
	"bytes"
	"crypto/rand"
	"errors"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/fireonce/fireonce/clients/go/fireoncev1"
)

// Rules of this file: connect-go decodes a unary request before any interceptor, and its error
// has no details. So a codec that fails leaves its error in the message, as an unknown field that
// no client can make, and the interceptor of the contract's rules finds it by UndecodableOf. A
// message with that mark is refused.

// undecodableField is the number of the mark: the highest that a field can have.
const undecodableField = protowire.MaxValidNumber

// RuleEncoding is broken by a request in binary that cannot be decoded.
const RuleEncoding = "wire.encoding"

// undecodableSecret is what a mark begins with: random, so that no client sends one.
var undecodableSecret = []byte(rand.Text())

// markUndecodable leaves an error in a message. It returns errors that are not for clients.
func markUndecodable(m proto.Message, err error) error {
	wrong := new(Undecodable)
	if !errors.As(err, &wrong) {
		return err
	}
	mark, err := proto.Marshal(wrong.Found)
	if err != nil {
		return err
	}
	proto.Reset(m)
	m.ProtoReflect().SetUnknown(protowire.AppendBytes(
		protowire.AppendTag(nil, undecodableField, protowire.BytesType), append(bytes.Clone(undecodableSecret), mark...)))
	return nil
}

// UndecodableOf returns what a codec found wrong with a message, or nil.
func UndecodableOf(m proto.Message) *fireoncev1.FieldViolation {
	raw := m.ProtoReflect().GetUnknown()
	if len(raw) == 0 {
		return nil
	}
	number, kind, n := protowire.ConsumeTag(raw)
	if n < 0 || number != undecodableField || kind != protowire.BytesType {
		return nil
	}
	value, n := protowire.ConsumeBytes(raw[n:])
	mark, ours := bytes.CutPrefix(value, undecodableSecret)
	found := &fireoncev1.FieldViolation{}
	if n < 0 || !ours || proto.Unmarshal(mark, found) != nil {
		return nil // not a mark of ours
	}
	return found
}

// Codecs are the codecs of the API.
func Codecs() []connect.Codec {
	return []connect.Codec{strictBinary{}, strictJSON{"json"}, strictJSON{"json; charset=utf-8"}}
}

// strictBinary is connect's binary codec, with errors that a client can read.
type strictBinary struct{}

// Name implements connect.Codec.
func (strictBinary) Name() string { return "proto" }

// Marshal implements connect.Codec.
func (c strictBinary) Marshal(v any) ([]byte, error) { return c.MarshalAppend(nil, v) }

// MarshalAppend is what connect-go calls instead of Marshal, to use its own buffer.
func (strictBinary) MarshalAppend(dst []byte, v any) ([]byte, error) {
	m, ok := v.(proto.Message)
	if !ok {
		return nil, ErrNoMessage
	}
	return proto.MarshalOptions{}.MarshalAppend(dst, m)
}

// Unmarshal implements connect.Codec.
func (strictBinary) Unmarshal(data []byte, v any) error {
	m, ok := v.(proto.Message)
	if !ok {
		return ErrNoMessage
	}
	return markUndecodable(m, ReadBinary(data, m))
}

// ReadBinary decodes a message.
func ReadBinary(data []byte, m proto.Message) error {
	if err := proto.Unmarshal(data, m); err != nil {
		return ErrBinary
	}
	return nil
}

// ErrBinary is the error for bytes that are no message.
var ErrBinary = &Undecodable{&fireoncev1.FieldViolation{
	Rule: RuleEncoding, Message: "the request cannot be decoded as a protobuf message, or a string in it is not UTF-8",
}}
