package kit_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/fireonce/fireonce/clients/go/connectionsv1"
	"github.com/fireonce/fireonce/internal/connector"
	"github.com/fireonce/fireonce/internal/connector/kit"
)

func credential(t *testing.T, pb *connectionsv1.Credential) connector.Credential {
	t.Helper()
	data, err := proto.Marshal(pb)
	if err != nil {
		t.Fatal(err)
	}
	return connector.Credential{Version: 1, Data: data}
}

func bearer(token string) *connectionsv1.Credential {
	return &connectionsv1.Credential{Kind: &connectionsv1.Credential_BearerToken{BearerToken: &connectionsv1.BearerToken{Token: token}}}
}

var allAuth = []string{kit.AuthBearer, kit.AuthBasic, kit.AuthAPIKey, kit.AuthHeaders, kit.AuthOAuth2}

func TestOpenAuth(t *testing.T) {
	basic := &connectionsv1.Credential{Kind: &connectionsv1.Credential_Basic{Basic: &connectionsv1.BasicAuth{Username: "ada", Password: "basic-secret"}}}
	for want, pb := range map[string]*connectionsv1.Credential{
		"[]":                                     {},
		"[{Authorization Bearer bearer-secret}]": bearer("bearer-secret"),
		"[{Authorization Basic YWRhOmJhc2ljLXNlY3JldA==}]": basic,
		"[{Authorization Bearer oauth-secret}]": {Kind: &connectionsv1.Credential_Oauth2{Oauth2: &connectionsv1.OAuth2Token{
			AccessToken: "oauth-secret", RefreshToken: "refresh-secret",
		}}},
		"[{X-Key key-secret} {Cookie a=header-secret}]": {
			Kind:    &connectionsv1.Credential_ApiKeyHeader{ApiKeyHeader: &connectionsv1.ApiKeyHeader{Name: "X-Key", Value: "key-secret"}},
			Headers: []*connectionsv1.SecretHeader{{Name: "Cookie", Value: "a=header-secret"}},
		},
	} {
		auth, err := kit.OpenAuth(credential(t, pb), allAuth...)
		if err != nil || fmt.Sprint(auth.Headers) != want {
			t.Errorf("%v, %v; want %s", auth.Headers, err, want)
		}
		for _, h := range auth.Headers {
			if shown := auth.Hidden.Redact("<" + h.Value + ">"); strings.Contains(shown, "secret") || strings.Contains(shown, "YWRh") {
				t.Errorf("a message may show %q", shown)
			}
		}
		if shown := fmt.Sprintf("%v %+v %#v", auth, auth, auth); strings.Contains(shown, "secret") || strings.Contains(shown, "YWRh") {
			t.Errorf("the credential prints: %s", shown)
		}
	}
}

// A target may read a header and give back what is in it, a cookie's value say.
func TestPartsOfHeadersAreHidden(t *testing.T) {
	for _, value := range []string{
		"Token part-secret", `Token token="part-secret"`, "a=b; session=part-secret; c=d", `Digest username="ada",response="part-secret"`,
		"one,part-secret", "part-secret",
	} {
		for name, pb := range map[string]*connectionsv1.Credential{
			"a key":    {Kind: &connectionsv1.Credential_ApiKeyHeader{ApiKeyHeader: &connectionsv1.ApiKeyHeader{Name: "Authorization", Value: value}}},
			"a header": {Headers: []*connectionsv1.SecretHeader{{Name: "Authorization", Value: value}}},
		} {
			auth, err := kit.OpenAuth(credential(t, pb), allAuth...)
			if shown := auth.Hidden.Redact(`{"it":"part-secret"}`); err != nil || strings.Contains(shown, "part-secret") {
				t.Errorf("%s %q: %v, a message may show %s", name, value, err, shown)
			}
		}
	}
}

func TestOpenAuthRefuses(t *testing.T) {
	hooks := &connectionsv1.Credential{Kind: &connectionsv1.Credential_WebhookSecrets{
		WebhookSecrets: &connectionsv1.WebhookSecrets{Secrets: []string{"whsec_hook-secret"}},
	}}
	twice := bearer("bearer-secret")
	twice.Headers = []*connectionsv1.SecretHeader{{Name: "X-A", Value: "b"}, {Name: "authorization", Value: "other-secret"}}
	headers := &connectionsv1.Credential{Headers: []*connectionsv1.SecretHeader{{Name: "X-A", Value: "header-secret"}}}
	many := &connectionsv1.Credential{Headers: make([]*connectionsv1.SecretHeader, kit.MaxSecretHeaders+1)}
	for i := range many.Headers {
		many.Headers[i] = &connectionsv1.SecretHeader{Name: "X-A", Value: "b"}
	}
	colon := &connectionsv1.Credential{Kind: &connectionsv1.Credential_Basic{Basic: &connectionsv1.BasicAuth{Username: "a:da", Password: "basic-secret"}}}
	key := func(name, value string) *connectionsv1.Credential {
		return &connectionsv1.Credential{Kind: &connectionsv1.Credential_ApiKeyHeader{ApiKeyHeader: &connectionsv1.ApiKeyHeader{Name: name, Value: value}}}
	}
	for name, c := range map[string]struct {
		pb    *connectionsv1.Credential
		kinds []string
		field string
	}{
		"a kind of nobody":     {hooks, allAuth, "credential"},
		"not this connector's": {bearer("bearer-secret"), allAuth[1:], "credential"},
		"nor headers":          {headers, allAuth[:1], "credential.headers"},
		"header twice":         {twice, allAuth, "credential.headers[1]"},
		"many headers":         {many, allAuth, "credential.headers"},
		"colon":                {colon, allAuth, "credential.basic.username"},
		"two lines":            {bearer("bearer-secret\r\nX: y"), allAuth, "credential"},
		"a cookie as a key":    {key("cookie", "key-secret"), allAuth, "credential.api_key_header"},
		"framing":              {key("Content-Length", "1"), allAuth, "credential.api_key_header"},
		"the key":              {key("Idempotency-Key", "key-secret"), allAuth, "credential.api_key_header"},
	} {
		_, err := kit.OpenAuth(credential(t, c.pb), c.kinds...)
		var input *connector.InputError
		if !errors.As(err, &input) || input.Field != c.field || strings.Contains(err.Error(), "-secret") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := kit.OpenAuth(connector.Credential{Data: []byte{0xff}}, allAuth...); err == nil {
		t.Error("bytes that are no credential")
	}
}
