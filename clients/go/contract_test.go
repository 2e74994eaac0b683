package fireonce_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"

	fireonce "github.com/fireonce/fireonce/clients/go"
	_ "github.com/fireonce/fireonce/clients/go/adminv1"
	_ "github.com/fireonce/fireonce/clients/go/connectionsv1"
	"github.com/fireonce/fireonce/clients/go/connectorv1"
	"github.com/fireonce/fireonce/clients/go/connectorv1/connectorv1connect"
	"github.com/fireonce/fireonce/clients/go/fireoncev1"
	"github.com/fireonce/fireonce/clients/go/fireoncev1/fireoncev1connect"
	"github.com/fireonce/fireonce/clients/go/fireoncev1/fireoncev1grpc"
	_ "github.com/fireonce/fireonce/clients/go/schedulesv1"
)

// TestGoPackages checks that the contract names this module's packages. Then the code that
// protoc generates from a program's own .proto files imports them, and the program registers
// each file once.
func TestGoPackages(t *testing.T) {
	messages := map[string]int{}
	protoregistry.GlobalTypes.RangeMessages(func(m protoreflect.MessageType) bool {
		file := m.Descriptor().ParentFile()
		if !strings.HasPrefix(file.Path(), "fireonce/") {
			return true
		}
		messages[string(file.Package())]++
		options, _ := file.Options().(*descriptorpb.FileOptions)
		got := reflect.TypeOf(m.Zero().Interface()).Elem().PkgPath()
		if got != options.GetGoPackage() {
			t.Errorf("%s: is in %s, and its go_package is %s", m.Descriptor().FullName(), got, options.GetGoPackage())
		}
		return true
	})
	for name, least := range map[string]int{
		"fireonce.v1": 60, "fireonce.schedules.v1": 40, "fireonce.connections.v1": 40, "fireonce.admin.v1": 30, "fireonce.connector.v1": 30,
	} {
		if messages[name] < least {
			t.Errorf("%s: %d messages", name, messages[name])
		}
	}
}

// guests is a connector that is also a client of Fireonce: it schedules a job.
type guests struct {
	connectorv1connect.UnimplementedConnectorServiceHandler
	jobs fireoncev1connect.JobServiceClient
}

func (g guests) Publish(ctx context.Context, r *connectorv1.PublishRequest) (*connectorv1.PublishResponse, error) {
	made, err := g.jobs.ScheduleJob(ctx, &fireoncev1.ScheduleJobRequest{
		IdempotencyKey: r.GetEffectKey(), Payload: r.GetContent().GetPayload(),
	})
	if err != nil {
		return nil, err
	}
	return &connectorv1.PublishResponse{Result: &connectorv1.PublishResponse_Published{
		Published: &connectorv1.Published{ExternalId: made.GetJob().GetIdempotencyKey()},
	}}, nil
}

// TestClientAndConnectorInOneProgram checks that one program may be a client and a connector.
func TestClientAndConnectorInOneProgram(t *testing.T) {
	s := &server{schedule: func(int) error { return nil }}
	_, handler := connectorv1connect.NewConnectorServiceHandler(guests{jobs: s.start(t, fireonce.Options{}).Jobs})
	at := httptest.NewServer(handler)
	t.Cleanup(at.Close)
	got, err := connectorv1connect.NewConnectorServiceClient(http.DefaultClient, at.URL).Publish(t.Context(), &connectorv1.PublishRequest{
		EffectKey: "order-42-paid", Content: &connectorv1.Content{Payload: &fireoncev1.Payload{}},
	})
	if err != nil || got.GetPublished().GetExternalId() != "order-42-paid" || len(s.requests) != 1 {
		t.Errorf("%v, %v after %d requests", got, err, len(s.requests))
	}
}

// TestGRPC checks that gRPC's own client calls the same service, with the same messages.
func TestGRPC(t *testing.T) {
	s := &server{schedule: func(int) error { return nil }}
	_, jobs := fireoncev1connect.NewJobServiceHandler(s)
	at := httptest.NewUnstartedServer(jobs)
	at.Config.Protocols = new(http.Protocols)
	at.Config.Protocols.SetUnencryptedHTTP2(true)
	at.Start()
	t.Cleanup(at.Close)
	conn, err := grpc.NewClient(at.Listener.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	got, err := fireoncev1grpc.NewJobServiceClient(conn).ScheduleJob(t.Context(), request)
	if err != nil || got.GetJob().GetIdempotencyKey() != "order-42-paid" {
		t.Errorf("%v, %v", got, err)
	}
}
