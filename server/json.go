package server

import (
	"errors"
	"regexp"
	"strconv"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// Rules of this file: JSON is read strictly, and an error quotes nothing that a client
// sent. A value, or a name, may be a secret in the wrong place, and a client may log the
// error.

// strictJSON refuses fields that the contract does not have. A misspelt
// scheduled_for that is ignored would send at once.
type strictJSON struct{ name string }

// Name implements connect.Codec.
func (c strictJSON) Name() string { return c.name }

var errNoMessage = errors.New("not a protobuf message")

// Marshal implements connect.Codec.
func (strictJSON) Marshal(v any) ([]byte, error) {
	m, ok := v.(proto.Message)
	if !ok {
		return nil, errNoMessage
	}
	return protojson.Marshal(m)
}

// Unmarshal implements connect.Codec.
func (strictJSON) Unmarshal(data []byte, v any) error {
	m, ok := v.(proto.Message)
	if !ok {
		return errNoMessage
	}
	return readJSON(data, m)
}

var errEmptyJSON = errors.New("zero-length payload is not a valid JSON object")

// readJSON decodes a message.
func readJSON(text []byte, m proto.Message) error {
	if len(text) == 0 {
		return errEmptyJSON
	}
	err := protojson.Unmarshal(text, m)
	if err == nil {
		return nil
	}
	words := valueInError.ReplaceAllString(err.Error(), "$1")
	if at := unknownName.FindStringSubmatchIndex(words); at != nil {
		name, _ := strconv.Unquote(words[at[2]:at[3]])
		words = words[:at[2]-1] // with the space before it
		if meant := nearest(m.ProtoReflect().Descriptor(), name); meant != "" {
			words += "; did you mean " + strconv.Quote(meant) + "?"
		}
	}
	return errors.New(words)
}

// valueInError finds where protojson quotes the value that it could not read, and
// unknownName where it quotes a field's name that it does not know.
var (
	valueInError = regexp.MustCompile(`(?s)(unexpected token|invalid value for \S+ (?:type|field \S+?)|invalid \S+|syntax error \(line \d+:\d+\)):? .*`)
	unknownName  = regexp.MustCompile(`(?s)unknown field ("(?:[^"\\]|\\.)*").*`)
)

// mostSlips is how far a name may be from the one that was meant.
const mostSlips = 2

// nearest returns the name of a field that is spelt much like name; empty: there is none.
func nearest(md protoreflect.MessageDescriptor, name string) (meant string) {
	best := mostSlips + 1
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
	if max(len(a)-len(b), len(b)-len(a)) > mostSlips {
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
