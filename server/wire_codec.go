package server

import (
	"bytes"
	"crypto/rand"
	"errors"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	fireoncev1 "github.com/fireonce/fireonce/gen/fireonce/v1"
)

// Rules of this file: connect-go decodes a unary request before any interceptor, and its error
// has no details. So a codec that fails leaves its error in the message, as an unknown field that
// no client can make, and the interceptor of the contract's rules finds it (Server.checkRules). A
// message with that mark is refused.

// undecodableField is the number of the mark: the highest that a field can have.
const undecodableField = protowire.MaxValidNumber

// ruleEncoding is broken by a request in binary that cannot be decoded.
const ruleEncoding = "wire.encoding"

// undecodableSecret is what a mark begins with: random, so that no client sends one.
var undecodableSecret = []byte(rand.Text())

// markUndecodable leaves an error in a message. It returns errors that are not for clients.
func markUndecodable(m proto.Message, err error) error {
	wrong := new(undecodable)
	if !errors.As(err, &wrong) {
		return err
	}
	mark, err := proto.Marshal(wrong.found)
	if err != nil {
		return err
	}
	proto.Reset(m)
	m.ProtoReflect().SetUnknown(protowire.AppendBytes(
		protowire.AppendTag(nil, undecodableField, protowire.BytesType), append(bytes.Clone(undecodableSecret), mark...)))
	return nil
}

// undecodableOf returns the error that a codec left in a message, or nil.
func undecodableOf(m proto.Message) *fault {
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
		return nil //nolint:nilerr // not a mark of ours
	}
	return invalid(false, found)
}

// strictBinary is connect's binary codec, with errors that a client can read.
type strictBinary struct{}

// Name implements connect.Codec.
func (strictBinary) Name() string { return "proto" }

// Marshal implements connect.Codec.
func (strictBinary) Marshal(v any) ([]byte, error) {
	m, ok := v.(proto.Message)
	if !ok {
		return nil, errNoMessage
	}
	return proto.Marshal(m)
}

// MarshalAppend is what connect-go calls instead of Marshal, to use its own buffer.
func (strictBinary) MarshalAppend(dst []byte, v any) ([]byte, error) {
	m, ok := v.(proto.Message)
	if !ok {
		return nil, errNoMessage
	}
	return proto.MarshalOptions{}.MarshalAppend(dst, m)
}

// Unmarshal implements connect.Codec.
func (strictBinary) Unmarshal(data []byte, v any) error {
	m, ok := v.(proto.Message)
	if !ok {
		return errNoMessage
	}
	return markUndecodable(m, readBinary(data, m))
}

// readBinary decodes a message.
func readBinary(data []byte, m proto.Message) error {
	if err := proto.Unmarshal(data, m); err != nil {
		return errBinary
	}
	return nil
}

var errBinary = &undecodable{&fireoncev1.FieldViolation{
	Rule: ruleEncoding, Message: "the request cannot be decoded as a protobuf message, or a string in it is not UTF-8",
}}
