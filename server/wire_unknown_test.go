package server_test

import (
	"testing"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"

	"github.com/fireonce/fireonce/clients/go/fireoncev1"
	"github.com/fireonce/fireonce/server"
)

// TestUnknownFieldsOfChanges: no RPC that changes something ignores a field that it does not
// know, on either listener.
func TestUnknownFieldsOfChanges(t *testing.T) {
	f := start(t)
	for listener, c := range map[string]client{"all protocols": overConnect(f), "gRPC": overNative(f)} {
		changes := 0
		for m := range server.Methods() {
			options, _ := m.Options().(*descriptorpb.MethodOptions)
			if options.GetIdempotencyLevel() == descriptorpb.MethodOptions_NO_SIDE_EFFECTS || m.IsStreamingServer() {
				continue
			}
			changes++
			kind, err := protoregistry.GlobalTypes.FindMessageByName(m.Input().FullName())
			f.must(err)
			answer, err := protoregistry.GlobalTypes.FindMessageByName(m.Output().FullName())
			f.must(err)
			req := kind.New()
			req.SetUnknown(protowire.AppendVarint(protowire.AppendTag(nil, 9999, protowire.VarintType), 1))
			err = c.call(t.Context(), "/"+string(m.Parent().FullName())+"/"+string(m.Name()), req.Interface(), answer.New().Interface())
			e := wantReason(t, err, fireoncev1.ErrorReason_ERROR_REASON_REQUEST_INVALID)
			if v := e.detail.GetViolations(); len(v) != 1 || v[0].GetRule() != "unknown_field" {
				t.Errorf("%s, %s: violations %v", listener, m.FullName(), v)
			}
		}
		if changes < 30 {
			t.Errorf("%d RPCs that change something", changes)
		}
	}
}
