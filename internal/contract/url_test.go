package contract

import (
	"errors"
	"regexp"
	"strings"
	"testing"

	"buf.build/gen/go/bufbuild/protovalidate/protocolbuffers/go/buf/validate"
	"buf.build/go/protovalidate"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/fireonce/fireonce/clients/go/connectionsv1"
	"github.com/fireonce/fireonce/clients/go/fireoncev1"
	"github.com/fireonce/fireonce/internal/weburl"
)

// TestOneRuleOfURLs checks that every URL of a request that a server sends to, fetches or shows has
// the one pattern.
func TestOneRuleOfURLs(t *testing.T) {
	others := map[protoreflect.FullName]string{
		"BlueskyOptions.Card.url":           patternPage, // shown: it may have a fragment
		"StartOAuthRequest.redirect_url":    "^[!-~]*$",  // compared with what the operator has listed
		"StartOAuthRequest.return_url":      "^[!-~]*$",
		"CompleteOAuthRequest.redirect_url": "^[!-~]*$",
	}
	urls := regexp.MustCompile(`(^|_)(url|uri)$`)
	n := 0
	requestStrings(func(name protoreflect.FullName, rules *validate.FieldRules) {
		short := inPackage(name)
		if !urls.MatchString(string(name.Name())) || short == "BlueskyOptions.quote_uri" {
			return
		}
		want := patternURL
		if other := others[short]; other != "" {
			want = other
		}
		if rules.GetString().GetPattern() != want {
			t.Errorf("%s has the pattern %q", short, rules.GetString().GetPattern())
		}
		n++
	})
	if n < 11 {
		t.Errorf("%d URLs were seen", n)
	}
}

// TestPatternOfURLs checks that the pattern refuses nothing that can be sent.
func TestPatternOfURLs(t *testing.T) {
	rule, page := regexp.MustCompile(patternURL), regexp.MustCompile(patternPage)
	for _, host := range []string{"example.com", "BÜCHER.example:8443", "例え.テスト", "[2001:db8::1]", "[::1]:80", "💩.example", "b%C3%BCcher.example", "מעט.example."} {
		for _, rest := range []string{"", "/", "?", "/größe?q=ü", "?filter[a]={b}|c", "/100%", "/a@b:c//d?e?f", "/{{run}}?{{nominal_date}}", "/«»‹›", `/"<>^`} {
			for _, scheme := range []string{"http", "HTTPS", "hTtP"} {
				text := scheme + "://" + host + rest
				if _, err := weburl.Parse(text); err != nil || !rule.MatchString(text) || !page.MatchString(text) || !page.MatchString(text+"#über") {
					t.Errorf("%s: %v", text, err)
				}
			}
		}
	}
}

// TestSentencesOfURLs checks that the sentence names what is wrong.
func TestSentencesOfURLs(t *testing.T) {
	rules, err := Rules()
	if err != nil {
		t.Fatal(err)
	}
	for url, words := range map[string]string{
		"example.com": "http://", "https://u:p@example.com/": "user info", "https://example.com/a b": "U+0020", "https://example.com/\t": "U+0009",
		`https://example.com\a`: "backslash", "https:///a": "name a host", "https://example.com/#a": "fragment", "https://a/?d={{ nominal_date }}": "{{run}}",
	} {
		broken, ok := errors.AsType[*protovalidate.ValidationError](rules.Validate(&fireoncev1.Webhook{Url: url}))
		if !ok || len(broken.Violations) != 1 {
			t.Errorf("%s: %v", url, broken)
			continue
		}
		if got := Sentence(broken.Violations[0], nil); !strings.Contains(got, words) || strings.Contains(got, "^") {
			t.Errorf("%s: %s", url, got)
		}
	}
	for origin, words := range map[string]string{"https://bü cher.example": "U+0020", "a.example": "http://", "https://a.example/x": "a scheme, a host"} {
		s := &connectionsv1.HttpSettings{ReceiverDedupes: connectionsv1.ReceiverDedupes_RECEIVER_DEDUPES_NO, Origins: []string{origin}}
		broken, ok := errors.AsType[*protovalidate.ValidationError](rules.Validate(s))
		if !ok || len(broken.Violations) != 1 || !strings.Contains(Sentence(broken.Violations[0], nil), words) {
			t.Errorf("%s: %v", origin, broken)
		}
	}
	for _, m := range []proto.Message{&fireoncev1.Webhook{Url: "HTTPS://bücher.example/[a]?{b}|c"}, &fireoncev1.BlueskyOptions_Card{Url: "https://例え.テスト/#ü", Title: "x"}} {
		if err := rules.Validate(m); err != nil {
			t.Errorf("%v: %v", m, err)
		}
	}
}
