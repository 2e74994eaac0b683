package kit

import (
	"cmp"
	"net/url"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/fireonce/fireonce/clients/go/fireoncev1"
	"github.com/fireonce/fireonce/internal/connector"
	"github.com/fireonce/fireonce/internal/connector/transport"
	"github.com/fireonce/fireonce/internal/job"
)

// HoldAccount is the hold key of a platform where a rate limit or a refused credential holds the
// connection's one account.
const HoldAccount = "account"

// Base is the part of a connector that is the same for all whose connections have settings S and
// a credential C. They embed it, and so have its methods.
type Base[S, C any] struct {
	// ReadSettings and ReadCredential read and check what is stored. They fail with *InputError.
	ReadSettings   func(encoded []byte) (S, error)
	ReadCredential func(connector.Credential) (C, error)
	// Fits checks settings with the credential, and fails with *InputError; nil: any two fit.
	Fits func(S, C) error
	// Offers returns what a connection with such settings can do. It fails with *InputError.
	Offers func(S) (connector.Capability, error)
	// Reconnect is what a user does about a credential that cannot be used, for a platform whose
	// connections are stored before their account has logged in. Empty: they are not.
	Reconnect string
}

// Check implements connector.Connector. It does not ask the platform.
func (b Base[S, C]) Check(encoded []byte, cred connector.Credential) (connector.Capability, error) {
	s, err := b.ReadSettings(encoded)
	if err != nil {
		return connector.Capability{}, err
	}
	if len(cred.Data) > 0 || b.Reconnect == "" {
		secret, err := connector.Opened(cred, b.ReadCredential)
		if err == nil && b.Fits != nil {
			err = b.Fits(s, secret)
		}
		if err != nil {
			return connector.Capability{}, err
		}
	}
	return b.Offers(s)
}

// Traits implements connector.Settler.
func (b Base[S, C]) Traits(encoded []byte) (job.Traits, error) {
	s, err := b.ReadSettings(encoded)
	if err != nil {
		return job.Traits{}, err
	}
	offers, err := b.Offers(s)
	return offers.Traits, err
}

// Account returns what a call needs of its connection. It fails with *Refusal.
func (b Base[S, C]) Account(o connector.Opening) (s S, cred C, err error) {
	if cred, err = connector.Opened(o.Credential, b.ReadCredential); err != nil {
		if b.Reconnect == "" {
			return s, cred, UnusableCredential(err)
		}
		msg := "the credential is not usable: " + b.Reconnect
		return s, cred, &connector.Refusal{Kind: job.FailAuth, Msg: msg, Err: err}
	}
	s, err = b.ReadSettings(o.Settings)
	if err == nil && b.Fits != nil {
		err = b.Fits(s, cred)
	}
	if err != nil {
		return s, cred, UnusableSettings(err)
	}
	return s, cred, nil
}

// A BadInput returns the error for a mistake in a field of one part of a user's input.
type BadInput func(field, msg string) *connector.InputError

// Bad returns the BadInput of the part at a path, such as "payload.social_post".
func Bad(reason connector.InputReason, path string) BadInput {
	return func(field, msg string) *connector.InputError {
		return &connector.InputError{Reason: reason, Field: path + field, Msg: msg}
	}
}

// NoSettings reads the settings of a connector that has none.
func NoSettings(name string) func(encoded []byte) (struct{}, error) {
	return func(encoded []byte) (none struct{}, err error) {
		if len(encoded) > 0 {
			err = Bad(connector.BadSettings, "settings")("", "the connector "+name+" takes no settings")
		}
		return none, err
	}
}

// ServerSettings are settings that name the server of an account.
type ServerSettings interface {
	proto.Message
	GetBaseUrl() string
}

// ReadServer reads settings into s, and returns the address in them, or usual if they have none.
func ReadServer(encoded []byte, s ServerSettings, usual string, httpsOnly bool, bad BadInput) (*url.URL, error) {
	if err := proto.Unmarshal(encoded, s); err != nil {
		return nil, bad("", "not readable")
	}
	base, err := transport.ParseURL(cmp.Or(s.GetBaseUrl(), usual))
	switch {
	case err != nil:
		return nil, bad(".base_url", err.Error())
	case base.RawQuery != "" || base.ForceQuery:
		return nil, bad(".base_url", "the URL must not have a query")
	case httpsOnly && base.Scheme != "https":
		return nil, bad(".base_url", "the URL must start with https://")
	}
	return base, nil
}

// NoPage refuses the address of a page, or of an API below it, where a server's is meant: one with a
// segment of its path that is one of the words, or begins with an at sign. Requests would go below it.
func NoPage(base *url.URL, bad BadInput, words ...string) error {
	before := ""
	for segment := range strings.SplitSeq(strings.Trim(base.Path, "/"), "/") {
		if strings.HasPrefix(segment, "@") || slices.Contains(words, segment) {
			return bad(".base_url", "must be the server's address alone: write "+base.Scheme+"://"+base.Host+before)
		}
		before += "/" + segment
	}
	return nil
}

// payloadKind is the oneof whose members name the kinds of payload.
var payloadKind = (&fireoncev1.Payload{}).ProtoReflect().Descriptor().Oneofs().ByName("kind")

// IsPayloadKind reports whether the contract has such a kind of payload.
func IsPayloadKind(name string) bool {
	return payloadKind.Fields().ByName(protoreflect.Name(name)) != nil
}

// ReadPayload reads a request's payload, which must be of one of the kinds. sends is what the
// connector sends, in words such as "the connector x sends posts". It fails with *InputError.
func ReadPayload(r connector.Request, sends string, kinds ...string) (*fireoncev1.Payload, error) {
	if !slices.Contains(kinds, r.PayloadKind) {
		return nil, &connector.InputError{Reason: connector.PayloadMismatch, Field: "payload", Msg: sends + " only"}
	}
	p := &fireoncev1.Payload{}
	err := proto.Unmarshal(r.Payload, p)
	if kind := p.ProtoReflect().WhichOneof(payloadKind); err != nil || kind == nil || string(kind.Name()) != r.PayloadKind {
		return nil, &connector.InputError{Reason: connector.BadPayload, Field: "payload", Msg: "not readable"}
	}
	return p, nil
}

// OtherOptions is the error for a post with another platform's options.
func OtherOptions(title string) *connector.InputError {
	return &connector.InputError{
		Reason: connector.PayloadMismatch, Field: "payload.social_post", Msg: "these are another platform's options, not " + title + "'s",
	}
}
