// Command grpcapart is a plugin of protoc: protoc-gen-go-grpc, with its code in a package of its
// own, as Connect's code has. Beside the messages, each program that imports them would build
// gRPC.
//
// The generator puts the code of a service where its file's go_package says. So it is shown each
// file in two: the messages where they are, and the services, which import them, in the package
// below with "grpc" at the end of its name.
package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/pluginpb"
)

func main() {
	if err := run(os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "grpcapart:", err)
		os.Exit(1)
	}
}

func run(in io.Reader, out io.Writer) error {
	text, err := io.ReadAll(in)
	if err != nil {
		return err
	}
	req := new(pluginpb.CodeGeneratorRequest)
	if err := proto.Unmarshal(text, req); err != nil {
		return err
	}
	split(req)
	if text, err = proto.Marshal(req); err != nil {
		return err
	}
	cmd := exec.Command("protoc-gen-go-grpc") //nolint:noctx // buf, which runs the plugin, ends both
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(text), out, os.Stderr
	return cmd.Run()
}

// split divides each file with services. The part with the services keeps the name, which is in the
// generated code; other files import the part with the messages.
func split(req *pluginpb.CodeGeneratorRequest) {
	var files []*descriptorpb.FileDescriptorProto
	moved := map[string]string{}
	for _, f := range req.GetProtoFile() {
		for i, name := range f.GetDependency() { // files come after what they import
			if to, ok := moved[name]; ok {
				f.Dependency[i] = to
			}
		}
		if len(f.GetService()) == 0 {
			files = append(files, f)
			continue
		}
		messages, services := proto.CloneOf(f), f
		moved[f.GetName()] = "messages/" + f.GetName()
		messages.Name, messages.Service = proto.String(moved[f.GetName()]), nil

		services.Dependency = append(services.Dependency, messages.GetName())
		services.MessageType, services.EnumType, services.Extension = nil, nil, nil
		to := f.GetOptions().GetGoPackage()
		services.Options.GoPackage = proto.String(path.Join(to, path.Base(to)+"grpc"))
		files = append(files, messages, services)
	}
	req.ProtoFile = files
}
