package server_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"reflect"
	"strings"
	"testing"

	"connectrpc.com/connect"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/fireonce/fireonce/clients/go/adminv1/adminv1connect"
	"github.com/fireonce/fireonce/clients/go/connectionsv1/connectionsv1connect"
	"github.com/fireonce/fireonce/clients/go/fireoncev1"
	"github.com/fireonce/fireonce/clients/go/fireoncev1/fireoncev1connect"
	"github.com/fireonce/fireonce/clients/go/fireoncev1/fireoncev1grpc"
	"github.com/fireonce/fireonce/clients/go/schedulesv1/schedulesv1connect"
	"github.com/fireonce/fireonce/clients/go/subscriptionsv1/subscriptionsv1connect"
)

// client calls the API in one protocol. Errors are *wireError.
type client struct {
	call   func(ctx context.Context, procedure string, req, res proto.Message) error
	stream func(ctx context.Context, req *fireoncev1.StreamJobEventsRequest) feed
}

// feed is an open stream: next returns messages until io.EOF or a *wireError.
type feed struct {
	next  func() (*fireoncev1.JobEvent, error)
	close func()
}

// wireError is what a client sees of an error, whatever the protocol.
type wireError struct {
	code   connect.Code
	msg    string
	detail *fireoncev1.ErrorDetail
	info   *errdetails.ErrorInfo
	types  []string
	// details are all of them, in their order.
	details []proto.Message
}

func (e *wireError) Error() string { return fmt.Sprintf("%s: %s %v", e.code, e.msg, e.types) }

func (e *wireError) add(name string, value []byte) {
	e.types = append(e.types, name)
	if m, err := (&anypb.Any{TypeUrl: "/" + name, Value: value}).UnmarshalNew(); err == nil {
		e.details = append(e.details, m)
	}
	switch name {
	case "fireonce.v1.ErrorDetail":
		e.detail = &fireoncev1.ErrorDetail{}
		_ = proto.Unmarshal(value, e.detail)
	case "google.rpc.ErrorInfo":
		e.info = &errdetails.ErrorInfo{}
		_ = proto.Unmarshal(value, e.info)
	}
}

// protocols are the five ways into the API: four on one port, and gRPC alone on
// another.
var protocols = map[string]func(*fixture) client{
	"curl": overCurl, "connect": overConnect, "grpc-web": overGRPCWeb, "grpc-go": overGRPC, "native": overNative,
}

// keyBrought is the API key of the calls of a context.
type keyBrought struct{}

// bring lets calls come with an API key, in every protocol.
func bring(ctx context.Context, key string) context.Context {
	return context.WithValue(ctx, keyBrought{}, key)
}

// bringing sends the key of a call's context: over HTTP, and as grpc-go wants it.
type bringing struct{ *http.Transport }

// RoundTrip implements http.RoundTripper.
func (b bringing) RoundTrip(r *http.Request) (*http.Response, error) {
	if key, ok := r.Context().Value(keyBrought{}).(string); ok {
		r = r.Clone(r.Context())
		r.Header.Set("Authorization", "Bearer "+key)
	}
	return b.Transport.RoundTrip(r)
}

// GetRequestMetadata implements credentials.PerRPCCredentials.
func (bringing) GetRequestMetadata(ctx context.Context, _ ...string) (map[string]string, error) {
	key, ok := ctx.Value(keyBrought{}).(string)
	if !ok {
		return nil, nil
	}
	return map[string]string{"authorization": "Bearer " + key}, nil
}

// RequireTransportSecurity implements credentials.PerRPCCredentials.
func (bringing) RequireTransportSecurity() bool { return false }

// overEach runs a test in every protocol, each with a server of its own.
func overEach(t *testing.T, fn func(t *testing.T, f *fixture, c client)) {
	for name, dial := range protocols {
		t.Run(name, func(t *testing.T) {
			f := start(t)
			fn(t, f, dial(f))
		})
	}
}

// ask calls a procedure and returns its answer.
func ask[Res any, Message interface {
	*Res
	proto.Message
}](t testing.TB, c client, procedure string, req proto.Message) (Message, error) {
	res := Message(new(Res))
	err := c.call(t.Context(), procedure, req, res)
	return res, err
}

// ---- Connect and gRPC-Web, by the generated client ----

func overConnect(f *fixture) client { return onlyPaths(f, generated(f)) }
func overGRPCWeb(f *fixture) client { return onlyPaths(f, generated(f, connect.WithGRPCWeb())) }

func generated(f *fixture, opts ...connect.ClientOption) client {
	transport := &http.Transport{DialContext: f.dial}
	if f.dial != nil {
		transport.Protocols = &f.protocols
	}
	h := &http.Client{Transport: bringing{transport}}
	f.tb.Cleanup(h.CloseIdleConnections)
	jobs := fireoncev1connect.NewJobServiceClient(h, "http://"+f.addr, opts...)
	conns := connectionsv1connect.NewConnectionServiceClient(h, "http://"+f.addr, opts...)
	bulk := adminv1connect.NewBulkServiceClient(h, "http://"+f.addr, opts...)
	stats := adminv1connect.NewStatsServiceClient(h, "http://"+f.addr, opts...)
	access := adminv1connect.NewAccessServiceClient(h, "http://"+f.addr, opts...)
	schedules := schedulesv1connect.NewScheduleServiceClient(h, "http://"+f.addr, opts...)
	subscriptions := subscriptionsv1connect.NewSubscriptionServiceClient(h, "http://"+f.addr, opts...)
	servers := adminv1connect.NewServerServiceClient(h, "http://"+f.addr, opts...)
	incidents := adminv1connect.NewIncidentServiceClient(h, "http://"+f.addr, opts...)
	pauses := adminv1connect.NewPauseServiceClient(h, "http://"+f.addr, opts...)
	return client{
		call: func(ctx context.Context, procedure string, req, res proto.Message) error {
			return callMethod(ctx, []any{jobs, conns, bulk, stats, access, schedules, subscriptions, servers, incidents, pauses}, procedure, req, res)
		},
		stream: func(ctx context.Context, req *fireoncev1.StreamJobEventsRequest) feed {
			s, err := jobs.StreamJobEvents(ctx, req)
			return connectFeed(s, err)
		},
	}
}

// callMethod calls the method of a generated client that a procedure names.
func callMethod(ctx context.Context, clients []any, procedure string, req, res proto.Message) error {
	var method reflect.Value
	for _, c := range clients { // no two services have a method of one name
		if m := reflect.ValueOf(c).MethodByName(procedure[strings.LastIndex(procedure, "/")+1:]); m.IsValid() {
			method = m
		}
	}
	out := method.Call([]reflect.Value{reflect.ValueOf(ctx), reflect.ValueOf(req)})
	if err, _ := out[1].Interface().(error); err != nil {
		return fromConnect(err)
	}
	proto.Merge(res, out[0].Interface().(proto.Message))
	return nil
}

func connectFeed(s *connect.ServerStreamForClient[fireoncev1.StreamJobEventsResponse], err error) feed {
	return feed{
		next: func() (*fireoncev1.JobEvent, error) {
			if err != nil {
				return nil, fromConnect(err)
			}
			if s.Receive() {
				return proto.Clone(s.Msg()).(*fireoncev1.StreamJobEventsResponse).GetEvent(), nil
			}
			if s.Err() != nil {
				return nil, fromConnect(s.Err())
			}
			return nil, io.EOF
		},
		close: func() {
			if err == nil {
				_ = s.Close()
			}
		},
	}
}

func fromConnect(err error) error {
	var e *connect.Error
	if !errors.As(err, &e) {
		return err
	}
	out := &wireError{code: e.Code(), msg: e.Message()}
	for _, d := range e.Details() {
		out.add(d.Type(), d.Bytes())
	}
	return out
}

// ---- gRPC, by grpc-go ----

func overGRPC(f *fixture) client   { return onlyPaths(f, grpcClient(dialGRPC(f))) }
func overNative(f *fixture) client { return onlyPaths(f, grpcClient(dialNative(f))) }

func grpcClient(conn *grpc.ClientConn) client {
	jobs := fireoncev1grpc.NewJobServiceClient(conn)
	return client{
		call: func(ctx context.Context, procedure string, req, res proto.Message) error {
			return fromGRPC(conn.Invoke(ctx, procedure, req, res))
		},
		stream: func(ctx context.Context, req *fireoncev1.StreamJobEventsRequest) feed {
			ctx, cancel := context.WithCancel(ctx)
			s, err := jobs.StreamJobEvents(ctx, req)
			return feed{close: cancel, next: func() (*fireoncev1.JobEvent, error) {
				if err != nil {
					return nil, fromGRPC(err)
				}
				m, err := s.Recv()
				return m.GetEvent(), fromGRPC(err)
			}}
		},
	}
}

func dialGRPC(f *fixture, opts ...grpc.DialOption) *grpc.ClientConn { return f.dialTo(f.addr, opts...) }

func dialNative(f *fixture, opts ...grpc.DialOption) *grpc.ClientConn {
	return f.dialTo(f.native, opts...)
}

func (f *fixture) dialTo(addr string, opts ...grpc.DialOption) *grpc.ClientConn {
	opts = append(opts, grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithPerRPCCredentials(bringing{}))
	conn, err := grpc.NewClient("dns:///"+addr, opts...)
	f.must(err)
	f.tb.Cleanup(func() { _ = conn.Close() })
	return conn
}

func fromGRPC(err error) error {
	if err == nil || errors.Is(err, io.EOF) {
		return err
	}
	st, _ := status.FromError(err)
	out := &wireError{code: connect.Code(st.Code()), msg: st.Message()}
	for _, d := range st.Proto().GetDetails() {
		out.add(strings.TrimPrefix(d.GetTypeUrl(), "type.googleapis.com/"), d.GetValue())
	}
	return out
}

// ---- Connect with JSON, by hand, as curl does it ----

func overCurl(f *fixture) client {
	h := &http.Client{Transport: bringing{&http.Transport{}}}
	f.tb.Cleanup(h.CloseIdleConnections)
	return onlyPaths(f, client{
		call: func(ctx context.Context, procedure string, req, res proto.Message) error {
			body, err := protojson.Marshal(req)
			if err != nil {
				return err
			}
			return postJSON(ctx, h, "http://"+f.addr+procedure, string(body), res)
		},
		stream: func(ctx context.Context, req *fireoncev1.StreamJobEventsRequest) feed {
			body, err := protojson.Marshal(req)
			if err != nil {
				return feed{next: func() (*fireoncev1.JobEvent, error) { return nil, err }, close: func() {}}
			}
			return curlFeed(ctx, h, "http://"+f.addr+"/fireonce.v1.JobService/StreamJobEvents", body)
		},
	})
}

// postJSON posts a body and reads the answer into res, which may be nil.
func postJSON(ctx context.Context, h *http.Client, url, body string, res proto.Message) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		return err
	}
	r.Header.Set("Content-Type", "application/json")
	answer, err := h.Do(r)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	data, err := io.ReadAll(answer.Body)
	switch {
	case err != nil:
		return err
	case answer.StatusCode != http.StatusOK:
		return jsonError(data)
	case res == nil:
		return nil
	default:
		return protojson.Unmarshal(data, res)
	}
}

func jsonError(data []byte) error {
	var wire struct {
		Code    connect.Code `json:"code"`
		Message string       `json:"message"`
		Details []struct {
			Type  string `json:"type"`
			Value string `json:"value"`
		} `json:"details"`
	}
	if err := json.Unmarshal(data, &wire); err != nil {
		return fmt.Errorf("%w: %s", err, data)
	}
	out := &wireError{code: wire.Code, msg: wire.Message}
	for _, d := range wire.Details {
		value, err := base64.RawStdEncoding.DecodeString(d.Value)
		if err != nil {
			return err
		}
		out.add(d.Type, value)
	}
	return out
}

// curlFeed reads a stream of length-prefixed JSON messages.
func curlFeed(ctx context.Context, h *http.Client, url string, body []byte) feed {
	frame := binary.BigEndian.AppendUint32([]byte{0}, uint32(len(body)))
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(append(frame, body...)))
	var answer *http.Response
	if err == nil {
		r.Header.Set("Content-Type", "application/connect+json")
		answer, err = h.Do(r)
	}
	return feed{
		next: func() (*fireoncev1.JobEvent, error) {
			if err != nil {
				return nil, err
			}
			var head [5]byte
			if _, err := io.ReadFull(answer.Body, head[:]); err != nil {
				return nil, err
			}
			data := make([]byte, binary.BigEndian.Uint32(head[1:]))
			if _, err := io.ReadFull(answer.Body, data); err != nil {
				return nil, err
			}
			if head[0]&2 == 0 {
				var m fireoncev1.StreamJobEventsResponse
				err := protojson.Unmarshal(data, &m)
				return m.GetEvent(), err
			}
			var end struct {
				Error json.RawMessage `json:"error"`
			}
			if err := json.Unmarshal(data, &end); err != nil || end.Error == nil {
				return nil, errors.Join(err, io.EOF)
			}
			return nil, jsonError(end.Error)
		},
		close: func() {
			if err == nil {
				_ = answer.Body.Close()
			}
		},
	}
}

func asWire(err error, e **wireError) bool { return errors.As(err, e) }
