package node

import (
	"errors"
	"math/rand/v2"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/fireonce/fireonce/clients/go/connectionsv1"
	"github.com/fireonce/fireonce/clients/go/fireoncev1"
	"github.com/fireonce/fireonce/internal/connector"
	"github.com/fireonce/fireonce/internal/contract"
)

// oddities are texts that connectors judge, well formed and not.
var oddities = []string{
	"", " ", "x", "Host", "X-Ok", "a@b", "Ada <ada@example.org>", "a@b, c@d", "ftp://x", "http://", "http://10.0.0.1/", "https://example.org/",
	"https://example.org/a.jpg", "https://u:p@example.org/", "https://example.org:99999/", "image/png", "application/json", "text/plain; charset=x",
	"POST", "FETCH", "/data/id", "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "1234567890", "C0123456789", "at://did:plc:x/app.bsky.feed.post/k", "\x00", "ä\xff",
	strings.Repeat("long ", 2000), "2.50", "de", "UTC",
}

// odd fills a message at random.
func odd(r *rand.Rand, m protoreflect.Message, depth int) {
	for i := range m.Descriptor().Fields().Len() {
		fd := m.Descriptor().Fields().Get(i)
		// A body_json is body_text before a connector sees it.
		if r.IntN(3) == 0 || fd.Message() != nil && depth == 0 || fd.Name() == "body_json" {
			continue
		}
		switch {
		case fd.IsMap():
			for range r.IntN(3) {
				m.Mutable(fd).Map().Set(protoreflect.ValueOfString(oddities[r.IntN(len(oddities))]).MapKey(), oddValue(r, m, fd.MapValue(), depth))
			}
		case fd.IsList():
			for range r.IntN(4) {
				list := m.Mutable(fd).List()
				if fd.Message() == nil {
					list.Append(oddValue(r, m, fd, depth))
				} else {
					odd(r, list.AppendMutable().Message(), depth-1)
				}
			}
		case fd.Message() != nil:
			odd(r, m.Mutable(fd).Message(), depth-1)
		default:
			m.Set(fd, oddValue(r, m, fd, depth))
		}
	}
}

func oddValue(r *rand.Rand, m protoreflect.Message, fd protoreflect.FieldDescriptor, _ int) protoreflect.Value {
	switch fd.Kind() {
	case protoreflect.StringKind:
		return protoreflect.ValueOfString(strings.ToValidUTF8(oddities[r.IntN(len(oddities))], ""))
	case protoreflect.BytesKind:
		return protoreflect.ValueOfBytes([]byte(oddities[r.IntN(len(oddities))]))
	case protoreflect.BoolKind:
		return protoreflect.ValueOfBool(r.IntN(2) == 0)
	case protoreflect.EnumKind:
		return protoreflect.ValueOfEnum(protoreflect.EnumNumber(r.IntN(fd.Enum().Values().Len())))
	case protoreflect.Int32Kind:
		return protoreflect.ValueOfInt32(int32(r.IntN(4000)) - 100)
	case protoreflect.Int64Kind:
		return protoreflect.ValueOfInt64(int64(r.IntN(1e10)) - 100)
	default:
		return m.NewField(fd)
	}
}

// TestConnectorsNamePathsOfRequests: whatever a connector refuses, it names a part of the
// request: of a job, or of a connection, whose settings it calls "settings".
func TestConnectorsNamePathsOfRequests(t *testing.T) {
	t.Parallel()
	registry, err := (&Node{cfg: Config{}}).connectors(nil)
	if err != nil {
		t.Fatal(err)
	}
	r := rand.New(rand.NewPCG(1, 2))
	submit := (&fireoncev1.ScheduleJobRequest{}).ProtoReflect().Descriptor()
	create := (&connectionsv1.CreateConnectionRequest{}).ProtoReflect().Descriptor()
	for _, name := range registry.Names() {
		code, _ := registry.Get(name)
		seen := make(map[string]bool)
		judge := func(err error) {
			wrong := new(connector.InputError)
			if !errors.As(err, &wrong) || seen[wrong.Field] {
				return
			}
			seen[wrong.Field] = true
			request, path := create, wrong.Field
			if strings.HasPrefix(path, "payload") {
				request = submit
			} else if rest, of := strings.CutPrefix(path, "settings"); of {
				path = "connection" + rest
			}
			if path == "" || contract.PathIn(request, path) != path {
				t.Errorf("%s: %q is no path of %s (%s)", name, wrong.Field, request.Name(), wrong.Msg)
			}
		}
		for range 3000 {
			judge(oddJob(t, r, code))
			judge(oddConnection(t, r, code))
		}
		if len(seen) < 2 {
			t.Errorf("%s refused by these fields only: %v", name, seen)
		}
	}
}

// settingsMember is the member of Connection.settings that a connector takes; nil: none.
func settingsMember(name string) protoreflect.FieldDescriptor {
	return (&connectionsv1.Connection{}).ProtoReflect().Descriptor().Oneofs().ByName("settings").Fields().ByName(protoreflect.Name(name))
}

// oddSettings are settings of a connector at random, encoded.
func oddSettings(t *testing.T, r *rand.Rand, name string) []byte {
	t.Helper()
	fd := settingsMember(name)
	if fd == nil {
		return nil
	}
	m := (&connectionsv1.Connection{}).ProtoReflect().NewField(fd).Message()
	odd(r, m, 3)
	return encoded(t, m.Interface())
}

func encoded(t *testing.T, m proto.Message) []byte {
	t.Helper()
	raw, err := proto.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// oddJob has a connector prepare a job at random.
func oddJob(t *testing.T, r *rand.Rand, code connector.Connector) error {
	t.Helper()
	d := code.Describe()
	kinds := (&fireoncev1.Payload{}).ProtoReflect().Descriptor().Oneofs().ByName("kind").Fields()
	fd := kinds.ByName(protoreflect.Name(d.Payloads[r.IntN(len(d.Payloads))]))
	if r.IntN(20) == 0 {
		fd = kinds.Get(r.IntN(kinds.Len()))
	}
	p := &fireoncev1.Payload{}
	odd(r, p.ProtoReflect().Mutable(fd).Message(), 4)
	_, err := code.Prepare(connector.Request{
		EffectKey: "fo1_key", Settings: oddSettings(t, r, d.Name), PayloadKind: string(fd.Name()), Payload: encoded(t, p),
		ReplyTo: []string{"", "1234", "post"}[r.IntN(3)],
	})
	return err
}

// oddConnection has a connector check settings and a credential at random.
func oddConnection(t *testing.T, r *rand.Rand, code connector.Connector) error {
	t.Helper()
	cred := connector.Credential{}
	if r.IntN(4) > 0 {
		c := &connectionsv1.Credential{}
		odd(r, c.ProtoReflect(), 3)
		cred = connector.Credential{Version: 1, Data: encoded(t, c)}
	}
	_, err := code.Check(oddSettings(t, r, code.Describe().Name), cred)
	return err
}
