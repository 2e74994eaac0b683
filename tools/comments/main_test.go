package main

import (
	"bytes"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/pluginpb"
)

// TestRun checks that comments of requests are written on one line, and those of answers are not.
func TestRun(t *testing.T) {
	message := func(name string) *descriptorpb.DescriptorProto {
		return &descriptorpb.DescriptorProto{Name: proto.String(name), Field: []*descriptorpb.FieldDescriptorProto{{
			Name: proto.String("note"), Number: proto.Int32(1), JsonName: proto.String("note"),
			Type: descriptorpb.FieldDescriptorProto_TYPE_STRING.Enum(), Label: descriptorpb.FieldDescriptorProto_LABEL_OPTIONAL.Enum(),
		}}}
	}
	comment := func(path ...int32) *descriptorpb.SourceCodeInfo_Location {
		return &descriptorpb.SourceCodeInfo_Location{Path: path, Span: []int32{0, 0, 1}, LeadingComments: proto.String(" Why, for\n the \"record\".\n")}
	}
	req := &pluginpb.CodeGeneratorRequest{
		FileToGenerate: []string{"a.proto"},
		ProtoFile: []*descriptorpb.FileDescriptorProto{{
			Name: proto.String("a.proto"), Package: proto.String("shop.v1"), Syntax: proto.String("proto3"),
			Options:        &descriptorpb.FileOptions{GoPackage: proto.String("example.org/shopv1")},
			MessageType:    []*descriptorpb.DescriptorProto{message("PayRequest"), message("PayResponse")},
			SourceCodeInfo: &descriptorpb.SourceCodeInfo{Location: []*descriptorpb.SourceCodeInfo_Location{comment(4, 0, 2, 0), comment(4, 1, 2, 0)}},
		}},
	}
	in, err := proto.Marshal(req)
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := run(bytes.NewReader(in), &out); err != nil {
		t.Fatal(err)
	}
	resp := new(pluginpb.CodeGeneratorResponse)
	if err := proto.Unmarshal(out.Bytes(), resp); err != nil {
		t.Fatal(err)
	}
	text := resp.GetFile()[0].GetContent()
	if !strings.Contains(text, `"shop.v1.PayRequest.note": "Why, for the \"record\".",`) || strings.Contains(text, "PayResponse") {
		t.Errorf("%s", text)
	}
}
