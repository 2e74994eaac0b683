package remote

import (
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/fireonce/fireonce/clients/go/connectionsv1"
	"github.com/fireonce/fireonce/clients/go/connectorv1"
	"github.com/fireonce/fireonce/clients/go/fireoncev1"
	"github.com/fireonce/fireonce/internal/connector"
	"github.com/fireonce/fireonce/internal/connector/kit"
	"github.com/fireonce/fireonce/internal/connector/transport"
	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/internal/redact"
)

// Rules of this file: a service is handed the operator's token with each call, and the secrets of
// a connection's credential with most. It may repeat them in a later answer, too. So
// its words are shown and logged only where both are known and removed. hide always has the token;
// only opened makes it. A nil hide means that the connection's secrets are not known: then nothing
// is quoted.

// secret is an opened credential, and what no message may show.
type secret struct {
	redact.All

	credential *connectionsv1.Credential // nil: there is none
	hide       transport.Secrets
}

// opened reads a credential, and adds the operator's token to what no message may show.
func (c *Connector) opened(cred connector.Credential) (secret, error) {
	sec, err := connector.Opened(cred, openSecret)
	sec.hide = append(transport.Secrets{}, sec.hide...).With(c.token)
	return sec, err
}

func openSecret(c connector.Credential) (secret, error) {
	if len(c.Data) == 0 {
		return secret{}, nil
	}
	pb, err := kit.ReadCredential(c)
	if err != nil {
		return secret{}, err
	}
	return secret{credential: pb, hide: transport.Secrets(nil).With(texts(pb.ProtoReflect(), nil)...)}, nil
}

// names are the fields of a credential that are not secret.
var names = map[protoreflect.Name]bool{"username": true, "name": true, "app": true}

// texts returns the strings of a message, but names.
func texts(m protoreflect.Message, out []string) []string {
	m.Range(func(f protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		switch {
		case f.IsMap() || names[f.Name()]:
		case f.IsList():
			for i := range v.List().Len() {
				out = text(f, v.List().Get(i), out)
			}
		default:
			out = text(f, v, out)
		}
		return true
	})
	return out
}

func text(f protoreflect.FieldDescriptor, v protoreflect.Value, out []string) []string {
	switch f.Kind() {
	case protoreflect.StringKind:
		return append(out, v.String())
	case protoreflect.MessageKind:
		return texts(v.Message(), out)
	default:
		return out
	}
}

func readSettings(encoded []byte) (*connectionsv1.CustomSettings, error) {
	s := &connectionsv1.CustomSettings{}
	if err := proto.Unmarshal(encoded, s); err != nil {
		return nil, kit.Bad(connector.BadSettings, "settings.custom")("", "not readable")
	}
	return s, nil
}

// account is what a call has about its connection.
func (c *Connector) account(o connector.Opening) (*connectorv1.Account, secret, error) {
	s, err := readSettings(o.Settings)
	if err != nil {
		return nil, secret{}, kit.UnusableSettings(err)
	}
	sec, err := c.opened(o.Credential)
	if err != nil {
		return nil, secret{}, kit.UnusableCredential(err)
	}
	a := &connectorv1.Account{Settings: s, Credential: sec.credential}
	if !o.Connection.IsZero() {
		a.ConnectionId = o.Connection.String()
	}
	return a, sec, nil
}

// request is what every attempt hands over alike.
type request struct {
	payload []byte // the contract's Payload, encoded
	replyTo string
	own     []byte // what the service has frozen
}

// fields are the frozen encoding: these, in this order.
func (r *request) fields() []kit.FrozenField {
	return []kit.FrozenField{
		{Name: "payload", At: &r.payload}, {Name: "reply_to", At: &r.replyTo}, {Name: "frozen", At: &r.own},
	}
}

func (r request) freeze() []byte {
	return kit.Freeze(job.NewCanon().Grow(len(r.payload)+len(r.own)+len(r.replyTo)), r.fields()...).Bytes()
}

// thaw reads a frozen request: the bytes come from a database.
func thaw(frozen []byte) (request, *connectorv1.Content, error) {
	var r request
	if err := kit.ThawAll(frozen, r.fields()...); err != nil {
		return request{}, nil, err
	}
	payload := &fireoncev1.Payload{}
	if err := proto.Unmarshal(r.payload, payload); err != nil || payload.GetKind() == nil {
		return request{}, nil, kit.ErrBadCanon
	}
	return r, &connectorv1.Content{Payload: payload, ReplyToExternalId: r.replyTo}, nil
}
