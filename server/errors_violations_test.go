package server_test

import (
	"context"
	"encoding/binary"
	"errors"
	"net/http"
	"strings"
	"testing"

	"buf.build/gen/go/bufbuild/protovalidate/protocolbuffers/go/buf/validate"
	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/fireonce/fireonce/clients/go/fireoncev1"
	"github.com/fireonce/fireonce/internal/connector"
	"github.com/fireonce/fireonce/internal/contract"
	"github.com/fireonce/fireonce/server"
)

// TestUndecodableRequests: JSON that is no request names the field that is wrong, in the
// contract's names, and quotes nothing.
func TestUndecodableRequests(t *testing.T) {
	t.Parallel()
	f := start(t)
	h := &http.Client{Transport: bringing{&http.Transport{}}}
	t.Cleanup(h.CloseIdleConnections)
	for body, want := range map[string][3]string{
		``:                         {"", "json.syntax", "the request is empty"},
		`{`:                        {"", "json.syntax", "not JSON: it ends too early"},
		`[]`:                       {"", "json.syntax", "not a JSON object"},
		`{"a" "HUSH"}`:             {"", "json.syntax", "not JSON: a comma or a colon is missing"},
		`{"schedulTime": "HUSH"}`:  {"", "json.unknown_field", `has no field "schedulTime"; did you mean "scheduleTime"?`},
		`{"payload": {"HUSH": 1}}`: {"payload", "json.unknown_field", "does not have; it has socialPost, "},
		"{\n \"payload\": {\"webhook\":\n {\"url\": 1}}}":                            {"payload.webhook.url", "json.value", "must be a string of UTF-8, in double quotes (line 3, column 10)"},
		`{"payload": {"webhook": {"headers": [{}, {"name": true}]}}}`:                {"payload.webhook.headers[1].name", "json.value", "must be a string"},
		`{"payload": {"webhook": {"headers": "HUSH"}}}`:                              {"payload.webhook.headers", "json.value", "must be a list"},
		`{"payload": {"webhook": "HUSH"}}`:                                           {"payload.webhook", "json.value", "must be an object"},
		`{"payload": {"webhook": {"body": "HU*SH"}}}`:                                {"payload.webhook.body", "json.value", "must be a string of base64"},
		`{"payload": {"webhook": {"body": "", "bodyText": ""}}}`:                     {"payload.webhook", "json.set_twice", "only one may be set"},
		`{"labels": {"HUSH": 7}}`:                                                    {"labels", "json.value", ""},
		`{"labels": []}`:                                                             {"labels", "json.value", "must be an object"},
		`{"idempotencyKey": "a", "idempotencyKey": "b"}`:                             {"idempotency_key", "json.set_twice", "is set twice"},
		`{"startWindow": "HUSH"}`:                                                    {"start_window", "json.value", "must be a duration in seconds"},
		`{"retryPolicy": {"maxAttempts": 1.5}}`:                                      {"retry_policy.max_attempts", "json.value", "must be a whole number"},
		`{"validateOnly": "HUSH"}`:                                                   {"validate_only", "json.value", "must be true or false"},
		`{"delivery": "HUSH"}`:                                                       {"delivery", "json.value", "must be one of DELIVERY_ONCE_OR_ASK, "},
		`{"payload": {"socialPost": {"text": "ä", "mastodon": {"visibility":"x"}}}}`: {"payload.social_post.mastodon.visibility", "json.value", "must be one of VISIBILITY_"},
	} {
		wantViolation(t, body, postJSON(t.Context(), h, "http://"+f.addr+scheduleJob, body, nil), want)
	}
}

func wantViolation(t *testing.T, what string, err error, want [3]string) {
	t.Helper()
	e := wantReason(t, err, fireoncev1.ErrorReason_ERROR_REASON_REQUEST_INVALID)
	found := e.detail.GetViolations()
	if len(found) != 1 || found[0].GetField() != want[0] || found[0].GetRule() != want[1] || !strings.Contains(found[0].GetMessage(), want[2]) {
		t.Errorf("%s: %v, want %q", what, found, want)
	}
	if strings.Contains(e.msg+e.detail.String(), "HUSH") || !strings.Contains(e.msg, found[0].GetMessage()) {
		t.Errorf("%s: message %q, detail %v", what, e.msg, e.detail)
	}
}

// TestTimesInJSON: a time that is none names its field, whatever it is called.
func TestTimesInJSON(t *testing.T) {
	t.Parallel()
	f := start(t)
	h := &http.Client{Transport: bringing{&http.Transport{}}}
	t.Cleanup(h.CloseIdleConnections)
	fields := (&fireoncev1.ScheduleJobRequest{}).ProtoReflect().Descriptor().Fields()
	tried := 0
	for i := range fields.Len() {
		fd := fields.Get(i)
		if fd.Message() == nil || fd.Message().FullName() != "google.protobuf.Timestamp" {
			continue
		}
		tried++
		err := postJSON(t.Context(), h, "http://"+f.addr+scheduleJob, `{"`+fd.JSONName()+`": "tomorrow"}`, nil)
		wantViolation(t, fd.JSONName(), err, [3]string{string(fd.Name()), "json.value", "must be a time in RFC 3339"})
	}
	if tried == 0 {
		t.Error("ScheduleJobRequest has no time")
	}
}

// TestUndecodableBinary: a string that is not UTF-8 is a request that is not one of the
// contract, on both listeners.
func TestUndecodableBinary(t *testing.T) {
	t.Parallel()
	overEach(t, func(t *testing.T, _ *fixture, c client) {
		if strings.HasSuffix(t.Name(), "/curl") {
			t.Skip("speaks JSON")
		}
		bad := &fireoncev1.ScheduleJobRequest{}
		bad.ProtoReflect().SetUnknown([]byte{0x0a, 1, 0xff}) // idempotency_key
		wantViolation(t, "binary", c.call(t.Context(), scheduleJob, bad, &fireoncev1.ScheduleJobResponse{}),
			[3]string{"", "wire.encoding", "not UTF-8"})
	})
}

// TestStreamsAreToldToo: a stream's request in JSON that is not one.
func TestStreamsAreToldToo(t *testing.T) {
	t.Parallel()
	f := start(t)
	body := `{"maxDuration": "HUSH"}`
	frame := string(binary.BigEndian.AppendUint32([]byte{0}, uint32(len(body)))) + body
	_, answer := f.do(http.MethodPost, jobsPath+"StreamJobEvents", frame, map[string]string{"Content-Type": "application/connect+json"})
	if !strings.Contains(answer, "max_duration: must be a duration") || !strings.Contains(answer, "fireonce.v1.ErrorDetail") || strings.Contains(answer, "HUSH") {
		t.Errorf("%s", answer)
	}
}

// TestNoPatternIsShown: no message of a rule of the contract shows a regular expression:
// each pattern has its sentence.
func TestNoPatternIsShown(t *testing.T) {
	t.Parallel()
	patterns := 0
	var rules func(where protoreflect.FullName, m protoreflect.Message)
	rules = func(where protoreflect.FullName, m protoreflect.Message) {
		m.Range(func(fd protoreflect.FieldDescriptor, v protoreflect.Value) bool {
			switch {
			case fd.Kind() == protoreflect.StringKind && !fd.IsList() && fd.Name() == "pattern":
				patterns++
				if server.PatternSentence(v.String()) == "" {
					t.Errorf("%s: the pattern %s has no sentence in patternSentences", where, v.String())
				}
			case fd.Kind() == protoreflect.StringKind && !fd.IsList() && fd.Name() == "message":
				if strings.ContainsAny(v.String(), `^\[]`) {
					t.Errorf("%s: the message %q", where, v.String())
				}
			case fd.Message() != nil && fd.IsList():
				for i := range v.List().Len() {
					rules(where, v.List().Get(i).Message())
				}
			case fd.Message() != nil && !fd.IsMap():
				rules(where, v.Message())
			}
			return true
		})
	}
	var walk func(list protoreflect.MessageDescriptors)
	walk = func(list protoreflect.MessageDescriptors) {
		for i := range list.Len() {
			m := list.Get(i)
			walk(m.Messages())
			if own, ok := proto.GetExtension(m.Options(), validate.E_Message).(*validate.MessageRules); ok && own != nil {
				rules(m.FullName(), own.ProtoReflect())
			}
			for j := range m.Fields().Len() {
				fd := m.Fields().Get(j)
				if own, ok := proto.GetExtension(fd.Options(), validate.E_Field).(*validate.FieldRules); ok && own != nil {
					rules(fd.FullName(), own.ProtoReflect())
				}
			}
		}
	}
	for file := range contract.Files() {
		walk(file.Messages())
	}
	if patterns < 40 {
		t.Errorf("only %d patterns were found", patterns)
	}
}

// TestSettingsPaths: a connector's error about settings has their path in the request of each
// RPC, and a path that leads out of the request is cut there.
func TestSettingsPaths(t *testing.T) {
	t.Parallel()
	for _, tt := range [][3]string{
		{connsPath + "CreateConnection", "settings.http.origins[0]", "connection.http.origins[0]"},
		{connsPath + "CreateConnection", "settings", "connection"},
		{connsPath + "CreateConnection", "settings.custom.region", "connection.custom"},
		{connsPath + "UpdateConnection", "settings.http.origins[0]", "http.origins[0]"},
		{connsPath + "UpdateConnection", "credential", ""},
		{connsPath + "StartOAuth", "settings.mastodon.base_url", "create.connection.mastodon.base_url"},
		{connsPath + "RotateCredential", "settings.http", ""},
		{connsPath + "RotateCredential", "credential.basic", "credential.basic"},
		{jobsPath + "UpdateJob", "payload.custom.data.amount", "payload.custom.data"},
		{jobsPath + "UpdateJob", "reply_to_key", ""},
		{jobsPath + "RetryJob", "payload.webhook", ""},
	} {
		err := server.InRequest(&connector.InputError{Reason: connector.BadSettings, Field: tt[1], Msg: "no"}, tt[0])
		if field, known := server.FieldOf(err); !known || field != tt[2] {
			t.Errorf("%s: %q, want %s", tt, field, tt[2])
		}
	}
}

// TestMarksAreOurs: a client cannot make the mark of a request that could not be decoded.
func TestMarksAreOurs(t *testing.T) {
	t.Parallel()
	overEach(t, func(t *testing.T, f *fixture, c client) {
		if strings.HasSuffix(t.Name(), "/curl") {
			t.Skip("JSON has no unknown fields")
		}
		r := f.request("marked")
		r.ProtoReflect().SetUnknown([]byte{0xfa, 0xff, 0xff, 0xff, 0x0f, 2, 'h', 'i'})
		var e *wireError
		err := c.call(context.WithoutCancel(t.Context()), scheduleJob, r, &fireoncev1.ScheduleJobResponse{})
		if !errors.As(err, &e) || e.code != connect.CodeInvalidArgument || !strings.Contains(e.msg, "does not know") {
			t.Errorf("%v", err)
		}
	})
}

// TestOneFaultOfAnAddress checks that an address which is no URI has one violation.
func TestOneFaultOfAnAddress(t *testing.T) {
	t.Parallel()
	f := start(t)
	for _, url := range []string{"x", "http://127.0.0.1/ a", "ftp://x"} {
		_, answer := f.do(http.MethodPost, scheduleJob, `{"idempotencyKey": "a", "connectionId": "`+f.conn+`", "payload": {"webhook": {"url": "`+url+`"}}}`,
			map[string]string{"Content-Type": "application/json"})
		if strings.Count(answer, `"field":"payload.webhook.url"`) != 1 || strings.Contains(answer, "valid URI") {
			t.Errorf("%s: %s", url, answer)
		}
	}
}
