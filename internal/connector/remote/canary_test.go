package remote_test

import (
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"path"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/fireonce/fireonce/clients/go/connectorv1"
	"github.com/fireonce/fireonce/clients/go/fireoncev1"
	"github.com/fireonce/fireonce/internal/connector"
	"github.com/fireonce/fireonce/internal/connector/remote"
	"github.com/fireonce/fireonce/internal/job"
)

// returned lists the texts that are given back to the service, and are not shown.
var returned = []string{"Prepared.frozen", "Prepared.fingerprint", "WatermarkRead.watermark"}

// answers has every method of the service, with answers that set every text of the protocol.
func answers() map[string][]proto.Message {
	text, fault := "x", &connectorv1.InvalidInput{Field: "payload.custom", Message: "m"}
	refused := func(kind connectorv1.Refusal_Kind) *connectorv1.Refusal {
		return &connectorv1.Refusal{Kind: kind, Message: "m"}
	}
	auth, permanent := refused(connectorv1.Refusal_KIND_AUTH), refused(connectorv1.Refusal_KIND_PERMANENT)
	published := &connectorv1.Published{ExternalId: text, ExternalUrl: "https://x.example/e"}
	kept := &connectorv1.Answer{Body: "b", Headers: []*connectorv1.AnswerHeader{{Name: "Request-Id", Value: "v"}}}
	return map[string][]proto.Message{
		"Describe": {&connectorv1.DescribeResponse{
			PayloadKinds: []string{"custom"}, EffectClasses: []fireoncev1.EffectClass{fireoncev1.EffectClass_EFFECT_CLASS_HANDLE},
			CredentialKinds: []string{"bearer_token"}, Promise: "p",
		}},
		"Check": {
			&connectorv1.CheckResponse{Result: &connectorv1.CheckResponse_Invalid{Invalid: fault}},
			&connectorv1.CheckResponse{Result: &connectorv1.CheckResponse_Checked{Checked: &connectorv1.Checked{
				Traits: &connectorv1.Traits{EffectClass: fireoncev1.EffectClass_EFFECT_CLASS_OBSERVABLE, ReadLag: durationpb.New(0)}, AccountIdentity: "ada",
			}}},
		},
		"Prepare": {
			&connectorv1.PrepareResponse{Result: &connectorv1.PrepareResponse_Invalid{Invalid: fault}},
			&connectorv1.PrepareResponse{Result: &connectorv1.PrepareResponse_Prepared{Prepared: &connectorv1.Prepared{}}},
		},
		"Test": {
			&connectorv1.TestResponse{Result: &connectorv1.TestResponse_Refused{Refused: auth}},
			&connectorv1.TestResponse{Result: &connectorv1.TestResponse_Tested{Tested: &connectorv1.Tested{AccountIdentity: "ada", Detail: "d"}}},
		},
		"Watermark": {
			&connectorv1.WatermarkResponse{Result: &connectorv1.WatermarkResponse_Refused{Refused: permanent}},
			&connectorv1.WatermarkResponse{Result: &connectorv1.WatermarkResponse_Read{Read: &connectorv1.WatermarkRead{Watermark: "7", AccountIdentity: "ada"}}},
		},
		"Stage": {
			&connectorv1.StageResponse{Result: &connectorv1.StageResponse_Refused{Refused: permanent}},
			&connectorv1.StageResponse{Result: &connectorv1.StageResponse_Staged{Staged: &connectorv1.Staged{Handle: "h"}}},
		},
		"Publish": {
			&connectorv1.PublishResponse{Result: &connectorv1.PublishResponse_Rejected{Rejected: auth}, Answer: kept},
			&connectorv1.PublishResponse{Result: &connectorv1.PublishResponse_Rejected{Rejected: permanent}},
			&connectorv1.PublishResponse{Result: &connectorv1.PublishResponse_NotSent{NotSent: &connectorv1.NotSent{Message: "m"}}},
			&connectorv1.PublishResponse{Result: &connectorv1.PublishResponse_Unknown{Unknown: &connectorv1.Unknown{Message: "m"}}},
			&connectorv1.PublishResponse{Result: &connectorv1.PublishResponse_Published{Published: published}},
		},
		"Poll": {
			&connectorv1.PollResponse{Result: &connectorv1.PollResponse_Published{Published: published}},
			&connectorv1.PollResponse{Result: &connectorv1.PollResponse_Pending{Pending: &connectorv1.Pending{Message: "m"}}},
			&connectorv1.PollResponse{Result: &connectorv1.PollResponse_Rejected{Rejected: permanent}},
			&connectorv1.PollResponse{Result: &connectorv1.PollResponse_Rejected{Rejected: auth}},
			&connectorv1.PollResponse{Result: &connectorv1.PollResponse_Unread{Unread: &connectorv1.Unread{Message: "m"}}},
			&connectorv1.PollResponse{Result: &connectorv1.PollResponse_Refused{Refused: auth}},
		},
		"Observe": {
			&connectorv1.ObserveResponse{Result: &connectorv1.ObserveResponse_Seen{Seen: &connectorv1.Seen{
				Complete: true, Candidates: []*connectorv1.Candidate{{ExternalId: "e", ExternalUrl: "https://x.example/e", Sure: true}},
			}}},
			&connectorv1.ObserveResponse{Result: &connectorv1.ObserveResponse_Unread{Unread: &connectorv1.Unread{Message: "m"}}},
			&connectorv1.ObserveResponse{Result: &connectorv1.ObserveResponse_Refused{Refused: auth}},
		},
	}
}

// texts calls visit for each text of a message, unset ones too, with its name and a function
// that sets it. Messages that are unset have none.
func texts(m protoreflect.Message, visit func(name string, set func(string))) {
	for i := range m.Descriptor().Fields().Len() {
		f := m.Descriptor().Fields().Get(i)
		name := string(m.Descriptor().Name()) + "." + string(f.Name())
		value := func(s string) protoreflect.Value {
			if f.Kind() == protoreflect.BytesKind {
				return protoreflect.ValueOfBytes([]byte(s))
			}
			return protoreflect.ValueOfString(s)
		}
		isText := f.Kind() == protoreflect.StringKind || f.Kind() == protoreflect.BytesKind
		switch {
		case isText && f.IsList():
			visit(name, func(s string) { m.Mutable(f).List().Append(value(s)) })
		case isText:
			visit(name, func(s string) { m.Set(f, value(s)) })
		case f.Message() == nil || !m.Has(f):
		case f.IsList():
			for j := range m.Get(f).List().Len() {
				texts(m.Get(f).List().Get(j).Message(), visit)
			}
		default:
			texts(m.Get(f).Message(), visit)
		}
	}
}

// everything asks the service all that it can be asked, and returns all that comes of it.
func everything(t *testing.T, c *remote.Connector) string {
	var out strings.Builder
	add := func(parts ...any) { fmt.Fprintf(&out, "%+v\n", parts) }
	add(c.Load(t.Context()), c.Describe())
	settings := settingsOf(t, "https://x.example")
	capability, err := c.Check(settings, credential(t))
	add(capability, err)
	traits, err := c.Traits(settings)
	add(traits, err)
	r := requestOf(t, "https://x.example")
	_, err = c.Prepare(r)
	add(err)
	r.Credential = func() (connector.Credential, error) { return credential(t), nil }
	prepared, err := c.Prepare(r)
	add(prepared.HoldKey, err)
	o := connector.Opening{Settings: settings, Class: job.Handle, Credential: credential(t), Prepared: prepared}
	tested, err := c.Test(t.Context(), o)
	add(tested, err)
	add(c.Poll(t.Context(), o, "h"))
	if len(prepared.Frozen) == 0 {
		return out.String()
	}
	mark, err := c.Watermark(t.Context(), o)
	add(c.AccountOf(mark), err)
	o.Class = job.Observable
	add(c.Observe(t.Context(), o, connector.Look{First: job.Attempt{Frozen: prepared.Frozen, Watermark: `{"mark":"7"}`, EffectKey: effectKey}}))
	for _, class := range []job.Class{job.Handle, job.Keyed} {
		o := send(t, c, class, func(handle string) error { add(handle); return nil })
		add(o, o.Answer)
	}
	return out.String()
}

// TestNoTextHasASecret checks that neither the operator's token nor the connection's secret gets
// out, whichever text of an answer, or of an error, has them.
func TestNoTextHasASecret(t *testing.T) {
	const text = "no: " + secret + " and " + operators
	var scripted atomic.Pointer[map[string][]byte]
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body := (*scripted.Load())[path.Base(r.URL.Path)]
		if body == nil {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusInternalServerError)
			fmt.Fprintf(w, `{"code":"internal: %s","message":%q}`, operators, text)
			return
		}
		w.Header().Set("Content-Type", "application/proto")
		_, _ = w.Write(body)
	}))
	t.Cleanup(server.Close)
	sender, base := loopback(t), answers()
	plain := func() map[string][]byte {
		out := make(map[string][]byte)
		for method, all := range base {
			out[method] = encode(t, all[len(all)-1])
		}
		return out
	}
	check := func(what string, script map[string][]byte) {
		scripted.Store(&script)
		got := everything(t, dial(t, server.URL, sender))
		for _, canary := range []string{secret, operators} {
			if canary == secret && strings.HasPrefix(what, "Describe ") {
				continue // it is asked without a connection, and answers for all of them
			}
			if i := strings.Index(strings.ToLower(got), canary); i >= 0 {
				t.Errorf("%s: %q", what, got[max(0, i-100):min(len(got), i+100)])
			}
		}
	}
	seen := make(map[string]bool)
	for method, all := range base {
		if method != "Prepare" { // nothing is sent then
			script := plain()
			delete(script, method)
			check(method+" fails", script)
		}
		for i, one := range all {
			var names []string
			texts(one.ProtoReflect(), func(name string, _ func(string)) { names = append(names, name) })
			for n, name := range names {
				seen[name] = true
				if slices.Contains(returned, name) {
					continue
				}
				for _, canary := range []string{text, secret, "https://x.example/" + operators} {
					changed, at := proto.Clone(one), 0
					texts(changed.ProtoReflect(), func(_ string, set func(string)) {
						if at == n {
							set(canary)
						}
						at++
					})
					script := plain()
					script[method] = encode(t, changed)
					check(fmt.Sprintf("%s %d, %s = %q", method, i, name, canary), script)
				}
			}
		}
	}
	all := make(map[string]bool)
	var walk func(protoreflect.MessageDescriptor)
	walk = func(d protoreflect.MessageDescriptor) {
		for i := range d.Fields().Len() {
			f := d.Fields().Get(i)
			switch {
			case f.Kind() == protoreflect.StringKind, f.Kind() == protoreflect.BytesKind:
				all[string(d.Name())+"."+string(f.Name())] = true
			case f.Message() != nil && f.Message().ParentFile().Package() == d.ParentFile().Package():
				walk(f.Message())
			}
		}
	}
	methods := connectorv1.File_fireonce_connector_v1_connector_service_proto.Services().Get(0).Methods()
	for i := range methods.Len() {
		walk(methods.Get(i).Output())
	}
	if !maps.Equal(all, seen) {
		t.Errorf("texts of the protocol: %v\ntexts that had a canary: %v", slices.Sorted(maps.Keys(all)), slices.Sorted(maps.Keys(seen)))
	}
}
