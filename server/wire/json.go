package wire

import (
	"errors"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/fireonce/fireonce/clients/go/fireoncev1"
)

// Rules of this file: JSON is read strictly, and an error quotes nothing that a client sent. A
// value or a name may be a secret in the wrong place, and a client may log the error.

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

var errEmptyJSON = &Undecodable{&fireoncev1.FieldViolation{
	Rule: ruleSyntax, Message: "the request is empty; one that sets nothing is {}",
}}

// readJSON decodes a message.
func readJSON(text []byte, m proto.Message) error {
	if len(text) == 0 {
		return errEmptyJSON
	}
	if err := protojson.Unmarshal(text, m); err != nil {
		return explainJSON(err, text, m.ProtoReflect().Descriptor())
	}
	return nil
}

// maxSlips is how far a name may be from the one that was meant.
const maxSlips = 2

// nearest returns the name of a field that is spelt much like name; empty: there is none.
func nearest(md protoreflect.MessageDescriptor, name string) (meant string) {
	best := maxSlips + 1
	for i := range md.Fields().Len() {
		fd := md.Fields().Get(i)
		if d := slips(fd.JSONName(), name); d < best && d < len(fd.JSONName())/2 {
			best, meant = d, fd.JSONName()
		}
		if fd.Message() == nil || fd.IsMap() {
			continue
		}
		if deeper := nearest(fd.Message(), name); deeper != "" {
			if d := slips(deeper, name); d < best {
				best, meant = d, deeper
			}
		}
	}
	return meant
}

// slips is the number of letters that were left out, added or changed. It is of no use
// for names of very different length, and then any large number.
func slips(a, b string) int {
	if max(len(a)-len(b), len(b)-len(a)) > maxSlips {
		return len(a) + len(b)
	}
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		corner := row[0]
		row[0] = i + 1
		for j := range len(b) {
			change := corner
			if a[i] != b[j] {
				change++
			}
			corner = row[j+1]
			row[j+1] = min(change, row[j]+1, corner+1)
		}
	}
	return row[len(b)]
}
