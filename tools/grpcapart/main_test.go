package main

import (
	"slices"
	"testing"

	"google.golang.org/protobuf/compiler/protogen"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/pluginpb"
)

// TestSplit: a generator sees the services alone in the package of gRPC, their messages in the
// package of the messages, and what other files import of them still there.
func TestSplit(t *testing.T) {
	message := func(name string) []*descriptorpb.DescriptorProto {
		return []*descriptorpb.DescriptorProto{{Name: proto.String(name)}}
	}
	file := func(name string, f *descriptorpb.FileDescriptorProto) *descriptorpb.FileDescriptorProto {
		f.Name, f.Package, f.Syntax = proto.String(name), proto.String("shop.v1"), proto.String("proto3")
		f.Options = &descriptorpb.FileOptions{GoPackage: proto.String("example.com/shopv1")}
		return f
	}
	method := &descriptorpb.MethodDescriptorProto{
		Name: proto.String("Buy"), InputType: proto.String(".shop.v1.Order"), OutputType: proto.String(".shop.v1.Bill"),
	}
	req := &pluginpb.CodeGeneratorRequest{
		FileToGenerate: []string{"bill.proto", "shop.proto", "later.proto"},
		ProtoFile: []*descriptorpb.FileDescriptorProto{
			file("bill.proto", &descriptorpb.FileDescriptorProto{MessageType: message("Bill")}),
			file("shop.proto", &descriptorpb.FileDescriptorProto{
				Dependency: []string{"bill.proto"}, MessageType: message("Order"),
				Service: []*descriptorpb.ServiceDescriptorProto{{
					Name: proto.String("Shop"), Method: []*descriptorpb.MethodDescriptorProto{method},
				}},
			}),
			file("later.proto", &descriptorpb.FileDescriptorProto{
				Dependency: []string{"shop.proto"},
				MessageType: []*descriptorpb.DescriptorProto{{
					Name: proto.String("Later"), Field: []*descriptorpb.FieldDescriptorProto{{
						Name: proto.String("order"), Number: proto.Int32(1), TypeName: proto.String(".shop.v1.Order"),
						Type: descriptorpb.FieldDescriptorProto_TYPE_MESSAGE.Enum(),
					}},
				}},
			}),
		},
	}
	split(req)
	gen, err := protogen.Options{}.New(req)
	if err != nil {
		t.Fatal(err)
	}
	shop := gen.FilesByPath["shop.proto"]
	if shop.GoImportPath != "example.com/shopv1/shopv1grpc" || shop.GoPackageName != "shopv1grpc" || len(shop.Messages) != 0 {
		t.Errorf("services: package %s in %s, %d messages", shop.GoPackageName, shop.GoImportPath, len(shop.Messages))
	}
	buy := shop.Services[0].Methods[0]
	for _, m := range []*protogen.Message{buy.Input, buy.Output, gen.FilesByPath["later.proto"].Messages[0].Fields[0].Message} {
		if m.GoIdent.GoImportPath != "example.com/shopv1" {
			t.Errorf("%s is in %s", m.Desc.FullName(), m.GoIdent.GoImportPath)
		}
	}
	var generated []string
	for _, f := range gen.Files {
		if f.Generate {
			generated = append(generated, f.Desc.Path())
		}
	}
	if !slices.Equal(generated, []string{"bill.proto", "shop.proto", "later.proto"}) {
		t.Errorf("code is generated for %v", generated)
	}
}
