module github.com/fireonce/fireonce/examples/connector-go

go 1.24.0

require (
	connectrpc.com/connect v1.19.1
	github.com/fireonce/fireonce/clients/go v0.1.0
	google.golang.org/protobuf v1.36.12
)

require buf.build/gen/go/bufbuild/protovalidate/protocolbuffers/go v1.36.12-20260825204119-511051f7f437.2 // indirect
