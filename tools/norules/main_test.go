package main

import (
	"strings"
	"testing"

	"google.golang.org/protobuf/types/descriptorpb"
)

// TestWithout checks that rules go with what belongs to them alone, and that nothing else does.
func TestWithout(t *testing.T) {
	const (
		statement = `option (buf.validate.message).cel = {
    id: "order.id"
  };`
		alone = `(buf.validate.field).string = {
    min_len: 1
    max_len: 9
  }`
		part   = `min_len: 1`
		first  = `(buf.validate.field).required = true`
		second = `(buf.validate.field).string.max_len = 2`
		last   = `(buf.validate.field).int32.gte = 0`
		oneof  = `option (buf.validate.oneof).required = true;`
	)
	text := `syntax = "proto3";

import "buf/validate/validate.proto";

// An order, [sic].
message Order {
  ` + statement + `

  // Its id.
  string id = 1 [` + alone + `]; // as it was
  string name = 2 [
    ` + first + `,
    ` + second + `
  ];
  int32 count = 3 [deprecated = true, ` + last + `];
  oneof kind {
    ` + oneof + `
    // Not shown.
    int32 size = 4 [` + last + `, json_name = "s"];
  }
}
`
	const want = `syntax = "proto3";

// An order, [sic].
message Order {
  // Its id.
  string id = 1; // as it was
  string name = 2;
  int32 count = 3 [deprecated = true];
  oneof kind {
    // Not shown.
    int32 size = 4 [json_name = "s"];
  }
}
`
	f := &descriptorpb.FileDescriptorProto{Dependency: []string{rulesFile}, SourceCodeInfo: &descriptorpb.SourceCodeInfo{}}
	// locate adds a location for each place of a part.
	locate := func(part string, path ...int32) {
		for from := 0; ; from += len(part) {
			found := strings.Index(text[from:], part)
			if found < 0 {
				return
			}
			from += found
			end := from + len(part)
			line, column := position(text[:from])
			endLine, endColumn := position(text[:end])
			span := []int32{line, column, endLine, endColumn}
			if line == endLine {
				span = []int32{line, column, endColumn}
			}
			f.SourceCodeInfo.Location = append(f.SourceCodeInfo.Location, &descriptorpb.SourceCodeInfo_Location{Path: path, Span: span})
		}
	}
	locate(`import "buf/validate/validate.proto";`, 3, 0)
	locate(`string id = 1`, 4, 0, 2, 0)
	for _, field := range []string{part, alone, first, second, last} {
		locate(field, 4, 0, 2, 0, 8, rulesNumber, 14)
	}
	locate(statement, 4, 0, 7, rulesNumber, 3, 0)
	locate(oneof, 4, 0, 8, 0, 2, rulesNumber, 1)

	if got := without(f, text); got != want {
		t.Errorf("got:\n%s", got)
	}
}

// position returns the line and the column of the end of a text.
func position(text string) (line, column int32) {
	return int32(strings.Count(text, "\n")), int32(len(text) - strings.LastIndex(text, "\n") - 1)
}
