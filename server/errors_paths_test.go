package server_test

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/dynamicpb"

	"github.com/fireonce/fireonce/clients/go/adminv1"
	"github.com/fireonce/fireonce/clients/go/connectionsv1"
	"github.com/fireonce/fireonce/clients/go/fireoncev1"
	"github.com/fireonce/fireonce/clients/go/schedulesv1"
	"github.com/fireonce/fireonce/internal/contract"
	"github.com/fireonce/fireonce/server"
)

// Rules of this file: every path that an error, an item's error or a warning has leads to
// a part of the request. Clients of tests check that for each answer (onlyPaths); the tests
// here spoil every field of every request, and know the path that has to come.

// onlyPaths wraps a client so that each answer's paths are looked at.
func onlyPaths(f *fixture, c client) client {
	call := c.call
	c.call = func(ctx context.Context, procedure string, req, res proto.Message) error {
		err := call(ctx, procedure, req, res)
		for _, wrong := range strayPaths(procedure, err, res) {
			f.tb.Errorf("%s: %s is no path of its request", procedure, wrong)
		}
		return err
	}
	return c
}

// itemCalls has the RPC whose request the paths of an item's error are of.
var itemCalls = map[string]string{
	jobsPath + "BatchScheduleJobs": scheduleJob, bulkPath + "BulkCancelJobs": jobsPath + "CancelJob",
	bulkPath + "BulkRescheduleJobs": jobsPath + "RescheduleJob",
	bulkPath + "BulkRetryJobs":      jobsPath + "RetryJob", bulkPath + "BulkResolveJobs": jobsPath + "ResolveJob",
	schedsPath + "BulkPauseSchedules": schedsPath + "PauseSchedule", schedsPath + "BulkResumeSchedules": schedsPath + "ResumeSchedule",
}

// requestOf returns the request message of an RPC.
func requestOf(procedure string) protoreflect.MessageDescriptor {
	for m := range server.Methods() {
		if procedureOf(m) == procedure {
			return m.Input()
		}
	}
	panic(procedure)
}

func procedureOf(m protoreflect.MethodDescriptor) string {
	return "/" + string(m.Parent().FullName()) + "/" + string(m.Name())
}

// strayPaths returns the paths in a call's error or answer that lead nowhere.
func strayPaths(procedure string, err error, res proto.Message) (out []string) {
	stray := func(request protoreflect.MessageDescriptor, path string) {
		if contract.PathIn(request, path) != path {
			out = append(out, fmt.Sprintf("%q", path))
		}
	}
	look := func(procedure string, d *fireoncev1.ErrorDetail) {
		for _, v := range d.GetViolations() {
			stray(requestOf(procedure), v.GetField())
		}
		if procedure == connsPath+"CompleteOAuth" {
			procedure = connsPath + "StartOAuth" // which stated what to make
		}
		differ := d.GetIdempotencyConflict().GetMismatchedFields()
		for _, path := range differ {
			stray(requestOf(procedure), path)
		}
		if listed := d.GetMetadata()["fields"]; listed != strings.Join(differ, ",") {
			out = append(out, "metadata "+listed)
		}
	}
	if e := new(wireError); errors.As(err, &e) {
		look(procedure, e.detail)
		return out
	}
	switch r := res.(type) {
	case *fireoncev1.ScheduleJobResponse:
		for _, w := range r.GetWarnings() {
			stray(requestOf(procedure), w.GetField())
		}
	case *fireoncev1.BatchScheduleJobsResponse:
		for _, item := range r.GetResults() {
			look(itemCalls[procedure], item.GetError().GetDetail())
		}
	case interface {
		GetResult() *schedulesv1.BulkScheduleResult
	}:
		for _, item := range r.GetResult().GetFailures() {
			look(itemCalls[procedure], item.GetError().GetDetail())
		}
	case interface{ GetResult() *adminv1.BulkResult }:
		for _, item := range r.GetResult().GetFailures() {
			look(itemCalls[procedure], item.GetError().GetDetail())
		}
	}
	return out
}

// undecodableOf is a request in JSON that is wrong at one path.
type undecodableOf struct{ path, json string }

// spoilJSON makes requests that have each field of a message once with a value that it
// cannot have. wrap puts a member's text into the request around it.
func spoilJSON(md protoreflect.MessageDescriptor, at string, depth int, wrap func(member string) string) (out []undecodableOf) {
	for i := range md.Fields().Len() {
		fd := md.Fields().Get(i)
		path := at + string(fd.Name())
		member := func(value string) string { return wrap(`"` + fd.JSONName() + `":` + value) }
		whole := func(value string) { out = append(out, undecodableOf{path, member(value)}) }
		inner := fd.Message()
		switch {
		case fd.IsMap():
			whole(`[]`)
			whole(`{"k":{"HUSH":1}}`)
			whole(`{"k":7}`)
			continue
		case fd.IsList():
			whole(`{}`)
			whole(`"HUSH"`)
			second := func(value string) string {
				return member(`[` + goodElement(fd) + `,` + value + `]`)
			}
			out = append(out, undecodableOf{path + "[1]", second(wrongValue(fd))})
			if inner != nil && depth > 0 && !wellKnown(inner) {
				out = append(out, spoilJSON(inner, path+"[1].", depth-1, func(m string) string { return second(`{` + m + `}`) })...)
			}
			continue
		}
		whole(wrongValue(fd))
		out = append(out, undecodableOf{path, wrap(`"` + fd.JSONName() + `":` + goodElement(fd) + `,"` + string(fd.Name()) + `":` + goodElement(fd))})
		if inner != nil && depth > 0 && !wellKnown(inner) {
			out = append(out, undecodableOf{path, member(`{"HUSH":1}`)})
			out = append(out, spoilJSON(inner, path+".", depth-1, func(m string) string { return member(`{` + m + `}`) })...)
		}
	}
	return out
}

func wellKnown(md protoreflect.MessageDescriptor) bool {
	return strings.HasPrefix(string(md.FullName()), "google.protobuf.")
}

// wrongValue is JSON that no value of a field's kind has, and does not look like one.
func wrongValue(fd protoreflect.FieldDescriptor) string {
	switch fd.Kind() {
	case protoreflect.StringKind:
		return `7`
	case protoreflect.BytesKind:
		return `"HU*SH"`
	case protoreflect.MessageKind:
		switch fd.Message().FullName() {
		case "google.protobuf.FieldMask":
			return `7`
		case "google.protobuf.Value":
			return `{"HUSH":1e400}`
		}
	}
	return `"HUSH"`
}

// goodElement is JSON that a value of a field's kind may have.
func goodElement(fd protoreflect.FieldDescriptor) string {
	switch fd.Kind() {
	case protoreflect.StringKind, protoreflect.BytesKind:
		return `""`
	case protoreflect.BoolKind:
		return `false`
	case protoreflect.MessageKind:
		switch fd.Message().FullName() {
		case "google.protobuf.Timestamp":
			return `"2030-01-31T09:00:00Z"`
		case "google.protobuf.Duration":
			return `"1s"`
		case "google.protobuf.FieldMask":
			return `""`
		}
		return `{}`
	default:
		return `0`
	}
}

// TestPathsOfJSON spoils each field of each request of the contract in JSON: the one
// violation names it.
func TestPathsOfJSON(t *testing.T) {
	t.Parallel()
	f := start(t)
	h := &http.Client{Transport: bringing{&http.Transport{}}}
	t.Cleanup(h.CloseIdleConnections)
	tried := 0
	for m := range server.Methods() {
		if m.IsStreamingServer() {
			continue // by TestPathsOfStreams
		}
		for _, s := range spoilJSON(m.Input(), "", 3, func(member string) string { return `{` + member + `}` }) {
			tried++
			f.wantPath(procedureOf(m), s, postJSON(t.Context(), h, "http://"+f.addr+procedureOf(m), s.json, nil))
		}
	}
	if tried < 1500 {
		t.Errorf("only %d requests were tried", tried)
	}
}

// wantPath wants one violation at a path, and nothing of the request in the error.
func (f *fixture) wantPath(procedure string, s undecodableOf, err error) {
	f.tb.Helper()
	e := new(wireError)
	if !errors.As(err, &e) {
		f.tb.Errorf("%s %s: %v", procedure, s.json, err)
		return
	}
	found := e.detail.GetViolations()
	if len(found) != 1 || found[0].GetField() != s.path || strings.Contains(e.msg+e.detail.String(), "HUSH") {
		f.tb.Errorf("%s %s: %v, want a violation at %q", procedure, s.json, e.detail, s.path)
	}
	if stray := strayPaths(procedure, err, nil); len(stray) > 0 {
		f.tb.Errorf("%s %s: %v lead nowhere", procedure, s.json, stray)
	}
}

// TestPathsOfStreams is TestPathsOfJSON for the request of a stream.
func TestPathsOfStreams(t *testing.T) {
	t.Parallel()
	f := start(t)
	tried := 0
	for m := range server.Methods() {
		if !m.IsStreamingServer() {
			continue
		}
		for _, s := range spoilJSON(m.Input(), "", 3, func(member string) string { return `{` + member + `}` }) {
			tried++
			frame := string(binary.BigEndian.AppendUint32([]byte{0}, uint32(len(s.json)))) + s.json
			_, answer := f.do(http.MethodPost, procedureOf(m), frame, map[string]string{"Content-Type": "application/connect+json"})
			var end struct {
				Error json.RawMessage `json:"error"`
			}
			f.must(json.Unmarshal([]byte(answer[5:]), &end))
			f.wantPath(procedureOf(m), s, jsonError(end.Error))
		}
	}
	if tried < 20 {
		t.Errorf("only %d requests were tried", tried)
	}
}

// spoilRules makes messages that break rules in each field, once with too small and once with
// too large values: strings of control characters, long strings, negative numbers and times, values
// that an enum does not have, elements that are the same, long keys of maps.
func spoilRules(md protoreflect.MessageDescriptor, depth, variant int) *dynamicpb.Message {
	m := dynamicpb.NewMessage(md)
	for i := range md.Fields().Len() {
		fd := md.Fields().Get(i)
		if one := fd.ContainingOneof(); one != nil && !one.IsSynthetic() && one.Fields().Get(variant%one.Fields().Len()) != fd {
			continue
		}
		switch {
		case fd.IsMap():
			entries := m.Mutable(fd).Map()
			for _, key := range []string{"Team \"]\n[", strings.Repeat("é", 300), "", "ok"} {
				entries.Set(protoreflect.ValueOfString(key).MapKey(), spoiltValue(fd.MapValue(), depth, variant))
			}
		case fd.IsList():
			if fd.Message() != nil && depth == 0 {
				continue
			}
			for range 2 {
				m.Mutable(fd).List().Append(spoiltValue(fd, depth, variant))
			}
		case fd.Message() == nil || depth > 0:
			m.Set(fd, spoiltValue(fd, depth, variant))
		}
	}
	return m
}

func spoiltValue(fd protoreflect.FieldDescriptor, depth, variant int) protoreflect.Value {
	number := int64(-1 - variant)
	if variant%2 == 1 {
		number = 1 << 30
	}
	switch fd.Kind() {
	case protoreflect.StringKind:
		if variant%3 == 2 {
			return protoreflect.ValueOfString("00000000-0000-0000-0000-000000000000")
		}
		return protoreflect.ValueOfString(strings.Repeat("\x01 é", 1+variant*2000))
	case protoreflect.BytesKind:
		return protoreflect.ValueOfBytes(make([]byte, variant*1000))
	case protoreflect.BoolKind:
		return protoreflect.ValueOfBool(variant%2 == 0)
	case protoreflect.EnumKind:
		return protoreflect.ValueOfEnum(protoreflect.EnumNumber(99 * (variant % 2)))
	case protoreflect.Int32Kind:
		return protoreflect.ValueOfInt32(int32(number))
	case protoreflect.Int64Kind:
		return protoreflect.ValueOfInt64(number << (10 * (variant % 4)))
	case protoreflect.Uint32Kind:
		return protoreflect.ValueOfUint32(uint32(number))
	case protoreflect.Uint64Kind:
		return protoreflect.ValueOfUint64(uint64(number))
	case protoreflect.DoubleKind:
		return protoreflect.ValueOfFloat64(float64(number))
	case protoreflect.MessageKind:
		return protoreflect.ValueOfMessage(spoilRules(fd.Message(), depth-1, variant))
	default:
		panic(fd.FullName())
	}
}

// TestPathsOfRules breaks the rules of each field of each request of the contract, all at
// once and one field at a time: each violation has a path of the request.
func TestPathsOfRules(t *testing.T) {
	t.Parallel()
	f := start(t)
	c := overGRPC(f)
	seen, variants := make(map[string]bool), 12
	if testing.Short() {
		variants = 3
	}
	for m := range server.Methods() {
		if m.IsStreamingServer() {
			continue // the same rules, by the same code
		}
		call := func(req proto.Message) {
			err := c.call(t.Context(), procedureOf(m), req, dynamicpb.NewMessage(m.Output()))
			e := new(wireError)
			if !errors.As(err, &e) {
				return
			}
			for _, v := range e.detail.GetViolations() {
				seen[procedureOf(m)+" "+v.GetField()] = true
				if len(v.GetField()) > 256 {
					t.Errorf("%s: a path of %d bytes", procedureOf(m), len(v.GetField()))
				}
			}
		}
		for variant := range variants {
			whole := spoilRules(m.Input(), 4, variant)
			call(whole)
			whole.Range(func(fd protoreflect.FieldDescriptor, v protoreflect.Value) bool {
				alone := dynamicpb.NewMessage(m.Input())
				alone.Set(fd, v)
				call(alone)
				return true
			})
		}
	}
	for _, want := range []string{
		scheduleJob + " connection", scheduleJob + ` labels["Team \"]\n["]`, scheduleJob + " labels",
		connsPath + "StartOAuth create.connection.connector", connsPath + "CreateConnection connection.labels",
		jobsPath + "ListJobs filter.job_ids[0]", jobsPath + "UpdateJob update_mask",
	} {
		if !seen[want] {
			t.Errorf("no violation at %s", want)
		}
	}
	if len(seen) < 300 {
		t.Errorf("only %d paths were seen", len(seen))
	}
}

// TestPathsOfElements: a list or map with more elements than it may have is named by the
// violation, in each request.
func TestPathsOfElements(t *testing.T) {
	t.Parallel()
	f := start(t)
	c := overGRPC(f)
	tried := 0
	var walk func(procedure string, md protoreflect.MessageDescriptor, at string, depth int, wrap func(protoreflect.Message) proto.Message)
	walk = func(procedure string, md protoreflect.MessageDescriptor, at string, depth int, wrap func(protoreflect.Message) proto.Message) {
		for i := range md.Fields().Len() {
			fd, m := md.Fields().Get(i), dynamicpb.NewMessage(md)
			path := at + string(fd.Name())
			switch {
			case fd.IsMap():
				for n := range 1001 {
					m.Mutable(fd).Map().Set(protoreflect.ValueOfString(fmt.Sprint("k", n)).MapKey(), fd.MapValue().Default())
				}
			case fd.IsList():
				list := m.Mutable(fd).List()
				for range 1001 {
					list.Append(list.NewElement())
				}
				if depth > 0 && fd.Message() != nil {
					walk(procedure, fd.Message(), path+"[0].", depth-1, func(inner protoreflect.Message) proto.Message {
						outer := dynamicpb.NewMessage(md)
						outer.Mutable(fd).List().Append(protoreflect.ValueOfMessage(inner))
						return wrap(outer)
					})
				}
			case fd.Message() != nil && !wellKnown(fd.Message()):
				if depth > 0 {
					walk(procedure, fd.Message(), path+".", depth-1, func(inner protoreflect.Message) proto.Message {
						outer := dynamicpb.NewMessage(md)
						outer.Set(fd, protoreflect.ValueOfMessage(inner))
						return wrap(outer)
					})
				}
				continue
			default:
				continue
			}
			tried++
			spoilt := undecodableOf{path: path, json: path}
			f.wantPath(procedure, spoilt, c.call(t.Context(), procedure, wrap(m), &fireoncev1.GetJobResponse{}))
		}
	}
	for m := range server.Methods() {
		if !m.IsStreamingServer() {
			walk(procedureOf(m), m.Input(), "", 3, func(m protoreflect.Message) proto.Message { return m.Interface() })
		}
	}
	if tried < 60 {
		t.Errorf("only %d lists were tried", tried)
	}
}

// TestPathsOfLogins: an error about the connection that a login creates has its path in
// StartOAuth's request, and so have the fields in which it differs from a stored one.
func TestPathsOfLogins(t *testing.T) {
	_, edit := withOAuth(t)
	f := start(t, edit)
	c := overGRPC(f)
	for want, spoil := range map[string]func(*connectionsv1.CreateConnectionRequest){
		"create.idempotency_key":    func(r *connectionsv1.CreateConnectionRequest) { r.IdempotencyKey = "fireonce:mine" },
		"create.credential":         func(r *connectionsv1.CreateConnectionRequest) { r.Credential = token("t") },
		"create.connection.webhook": func(r *connectionsv1.CreateConnectionRequest) { r.Connection.Settings = webhookSettings() },
		"create.connection.custom":  func(r *connectionsv1.CreateConnectionRequest) { r.Connection.Settings = customOf("wrong") },
		"create.connection.mastodon": func(r *connectionsv1.CreateConnectionRequest) {
			r.Connection.Settings = &connectionsv1.Connection_Mastodon{Mastodon: &connectionsv1.MastodonSettings{BaseUrl: "https://a.example"}}
		},
		"create":            func(r *connectionsv1.CreateConnectionRequest) { unknownIn(r) },
		"create.connection": func(r *connectionsv1.CreateConnectionRequest) { unknownIn(r.Connection) },
		"create.connection.limits": func(r *connectionsv1.CreateConnectionRequest) {
			r.Connection.Limits = &connectionsv1.ConnectionLimits{}
			unknownIn(r.Connection.Limits)
		},
	} {
		login := newMember("login")
		spoil(login.GetCreate())
		f.wantPath(connsPath+"StartOAuth", undecodableOf{path: want}, c.call(t.Context(), connsPath+"StartOAuth", login, &connectionsv1.StartOAuthResponse{}))
	}

	begun := f.startLogin(c, own(newMember("twice")))
	other := &connectionsv1.CreateConnectionRequest{IdempotencyKey: "twice", Connection: &connectionsv1.Connection{
		Connector: "member", DisplayName: "Bob", Settings: customOf("x"),
	}}
	f.must(c.call(t.Context(), connsPath+"CreateConnection", other, &connectionsv1.CreateConnectionResponse{}))
	err := c.call(t.Context(), connsPath+"CompleteOAuth", &connectionsv1.CompleteOAuthRequest{
		State: begun.GetState(), Code: "ann", RedirectUrl: ownURL,
	}, &connectionsv1.CompleteOAuthResponse{})
	e := wantReason(t, err, fireoncev1.ErrorReason_ERROR_REASON_IDEMPOTENCY_KEY_REUSED)
	if got := e.detail.GetMetadata()["fields"]; got != "create.connection.display_name,create.connection.custom" {
		t.Errorf("fields %q", got)
	}
}

func customOf(values ...string) *connectionsv1.Connection_Custom {
	return &connectionsv1.Connection_Custom{Custom: settingsOf(values...)}
}

func unknownIn(m proto.Message) { m.ProtoReflect().SetUnknown([]byte{0xfa, 0x7f, 1, 'x'}) }

// TestPathsOfConflicts: the settings that differ have the path that the request has them
// at, or should have.
func TestPathsOfConflicts(t *testing.T) {
	overEach(t, func(t *testing.T, f *fixture, c client) {
		create := func(connector string, edit func(*connectionsv1.Connection)) error {
			r := &connectionsv1.CreateConnectionRequest{IdempotencyKey: "k", Connection: &connectionsv1.Connection{Connector: connector}}
			edit(r.Connection)
			return c.call(t.Context(), connsPath+"CreateConnection", r, &connectionsv1.CreateConnectionResponse{})
		}
		f.must(create("webhook", func(c *connectionsv1.Connection) { c.Settings = webhookSettings() }))
		for want, edit := range map[string]func(*connectionsv1.Connection){
			"connection.webhook": func(c *connectionsv1.Connection) {
				c.Settings = &connectionsv1.Connection_Webhook{Webhook: &connectionsv1.WebhookSettings{ReceiverDedupes: connectionsv1.ReceiverDedupes_RECEIVER_DEDUPES_NO}}
			},
			"connection.limits": func(c *connectionsv1.Connection) {
				c.Settings, c.Limits = webhookSettings(), &connectionsv1.ConnectionLimits{MaxInFlight: 1}
			},
			"connection.display_name": func(c *connectionsv1.Connection) { c.Settings, c.DisplayName = webhookSettings(), "Other" },
		} {
			e := wantReason(t, create("webhook", edit), fireoncev1.ErrorReason_ERROR_REASON_IDEMPOTENCY_KEY_REUSED)
			if got := e.detail.GetIdempotencyConflict().GetMismatchedFields(); len(got) != 1 || got[0] != want {
				t.Errorf("%q differ, want %s", got, want)
			}
		}
		e := wantReason(t, create("stub", func(*connectionsv1.Connection) {}), fireoncev1.ErrorReason_ERROR_REASON_IDEMPOTENCY_KEY_REUSED)
		if got := e.detail.GetMetadata()["fields"]; got != "connection.connector,connection.custom" {
			t.Errorf("fields %q", got)
		}
	})
}
