// Package kit has what the platforms' connectors share: settings and credentials, sessions, frozen
// fields, media files, messages and e-mail, origins, and what is kept of answers.
package kit

import (
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"slices"
	"strings"

	"golang.org/x/net/http/httpguts"
	"google.golang.org/protobuf/proto"

	"github.com/fireonce/fireonce/clients/go/connectionsv1"
	"github.com/fireonce/fireonce/internal/connector"
	"github.com/fireonce/fireonce/internal/connector/transport"
	"github.com/fireonce/fireonce/internal/redact"
)

// MaxSecretHeaders bounds a credential's headers.
const MaxSecretHeaders = 16

// Auth is an opened credential as headers that go with every request, and the
// texts of it that no message may show. It prints as nothing.
type Auth struct {
	redact.All

	Headers []transport.Header
	Hidden  transport.Secrets
}

// AcceptJSON returns the headers of a request that wants JSON: its own, Accept, and the
// credential's.
func (a Auth) AcceptJSON(own ...transport.Header) []transport.Header {
	return append(append(own, transport.Header{Name: "Accept", Value: "application/json"}), a.Headers...)
}

// Key names the credential, and what it is used for, in a cache: the secret is not kept.
func (a Auth) Key(use string) [sha256.Size]byte {
	h := sha256.New()
	for _, header := range a.Headers {
		_, _ = h.Write([]byte(header.Value + "\x00"))
	}
	_, _ = h.Write([]byte(use))
	return [sha256.Size]byte(h.Sum(nil))
}

// The kinds of credential that become headers, named as the contract's Credential names them.
const (
	AuthBearer  = "bearer_token"
	AuthBasic   = "basic"
	AuthAPIKey  = "api_key_header" //nolint:gosec // the name of a kind, and no credential
	AuthOAuth2  = "oauth2"
	AuthHeaders = "headers"
)

// OpenAuth opens a credential of one of these kinds. No credential is none. It
// fails with *InputError and never quotes a secret.
func OpenAuth(c connector.Credential, kinds ...string) (Auth, error) {
	pb, err := ReadCredential(c)
	if err != nil {
		return Auth{}, err
	}
	var out Auth
	var hide []string
	if out.Headers, hide, err = openKind(pb, kinds); err != nil {
		return Auth{}, err
	}
	for _, h := range out.Headers {
		if !httpguts.ValidHeaderFieldValue(h.Value) {
			return Auth{}, badCredential("", "must be one line without control characters")
		}
	}
	if len(pb.GetHeaders()) > 0 && !slices.Contains(kinds, AuthHeaders) {
		return Auth{}, badCredential(".headers", "this connector takes no further headers")
	}
	more, hidden, err := SecretHeaders(pb.GetHeaders())
	if err != nil {
		return Auth{}, err
	}
	for i, h := range more {
		if HasHeader(out.Headers, h.Name) {
			return Auth{}, badCredential(fmt.Sprintf(".headers[%d]", i), "the credential sets this header already")
		}
	}
	out.Headers = append(out.Headers, more...)
	out.Hidden = out.Hidden.With(append(hide, hidden...)...)
	return out, nil
}

// OpenToken returns how the access token of an account is opened, which must be there. missing
// says so to a user.
func OpenToken(missing string) func(connector.Credential) (Auth, error) {
	return func(c connector.Credential) (Auth, error) {
		a, err := OpenAuth(c, AuthBearer, AuthOAuth2)
		if err == nil && len(a.Headers) == 0 {
			err = badCredential("", missing)
		}
		return a, err
	}
}

// OpenKinds is OpenAuth for Base.ReadCredential.
func OpenKinds(kinds ...string) func(connector.Credential) (Auth, error) {
	return func(c connector.Credential) (Auth, error) { return OpenAuth(c, kinds...) }
}

// credentialKind is the oneof whose members name the kinds of credential.
var credentialKind = (&connectionsv1.Credential{}).ProtoReflect().Descriptor().Oneofs().ByName("kind")

// openKind returns the header that a credential's kind becomes, and the texts in it
// that no message may show.
func openKind(pb *connectionsv1.Credential, kinds []string) (out []transport.Header, hide []string, err error) {
	set := pb.ProtoReflect().WhichOneof(credentialKind)
	if set != nil && !slices.Contains(kinds, string(set.Name())) {
		return nil, nil, badCredential("", "this connector takes "+strings.Join(kinds, ", ")+", or nothing")
	}
	switch kind := pb.GetKind().(type) {
	case *connectionsv1.Credential_BearerToken:
		hide = append(hide, kind.BearerToken.GetToken())
		out = append(out, transport.Header{Name: "Authorization", Value: "Bearer " + kind.BearerToken.GetToken()})
	case *connectionsv1.Credential_Oauth2:
		hide = append(hide, kind.Oauth2.GetAccessToken())
		if refresh := kind.Oauth2.GetRefreshToken(); refresh != "" {
			hide = append(hide, refresh)
		}
		out = append(out, transport.Header{Name: "Authorization", Value: "Bearer " + kind.Oauth2.GetAccessToken()})
	case *connectionsv1.Credential_Basic:
		user, password := kind.Basic.GetUsername(), kind.Basic.GetPassword()
		if strings.Contains(user, ":") {
			return nil, nil, badCredential(".basic.username", "must not have a colon (RFC 7617)")
		}
		token := base64.StdEncoding.EncodeToString([]byte(user + ":" + password))
		hide = append(hide, password, token)
		out = append(out, transport.Header{Name: "Authorization", Value: "Basic " + token})
	case *connectionsv1.Credential_ApiKeyHeader:
		name, value := kind.ApiKeyHeader.GetName(), kind.ApiKeyHeader.GetValue()
		// Authorization is a usual place for a key, Cookie is not.
		if err := transport.CheckHeader(name, value, strings.EqualFold(name, "Authorization")); err != nil {
			return nil, nil, &connector.InputError{Reason: connector.BadHeader, Field: "credential.api_key_header", Msg: err.Error()}
		}
		hide = append(hide, secretParts(value)...)
		out = append(out, transport.Header{Name: name, Value: value})
	}
	return out, hide, nil
}

// SecretHeaders checks a credential's headers, and returns the texts in them that no
// message may show. It fails with *InputError.
func SecretHeaders(in []*connectionsv1.SecretHeader) (out []transport.Header, hide []string, err error) {
	if len(in) > MaxSecretHeaders {
		return nil, nil, badCredential(".headers", "at most 16")
	}
	for i, h := range in {
		if err := transport.CheckHeader(h.GetName(), h.GetValue(), true); err != nil {
			return nil, nil, &connector.InputError{Reason: connector.BadHeader, Field: fmt.Sprintf("credential.headers[%d]", i), Msg: err.Error()}
		}
		out = append(out, transport.Header{Name: h.GetName(), Value: h.GetValue()})
		hide = append(hide, secretParts(h.GetValue())...)
	}
	return out, hide, nil
}

// secretParts returns a header's value and its parts that a target may echo after
// parsing it: the token behind a scheme, a cookie's value, a parameter's (RFC 9110,
// section 11.4).
func secretParts(value string) []string {
	out := []string{value}
	for _, part := range strings.FieldsFunc(value, func(r rune) bool { return r == ' ' || r == '\t' || r == ',' || r == ';' }) {
		out = append(out, part)
		if _, inner, found := strings.Cut(part, "="); found {
			out = append(out, strings.Trim(inner, `"`))
		}
	}
	return out
}

// HasHeader reports whether a header is among others, as receivers see its name.
func HasHeader(in []transport.Header, name string) bool {
	folded := transport.FoldedName(name)
	return slices.ContainsFunc(in, func(h transport.Header) bool { return transport.FoldedName(h.Name) == folded })
}

// ReadCredential reads a credential that becomes no header. It fails with *InputError.
func ReadCredential(c connector.Credential) (*connectionsv1.Credential, error) {
	pb := &connectionsv1.Credential{}
	if err := proto.Unmarshal(c.Data, pb); err != nil {
		return nil, badCredential("", "not readable")
	}
	return pb, nil
}

var badCredential = Bad(connector.BadCredential, "credential")
