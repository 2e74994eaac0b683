package kit_test

import (
	"errors"
	"fmt"
	"net/url"
	"testing"

	"github.com/fireonce/fireonce/internal/connector"
	"github.com/fireonce/fireonce/internal/connector/kit"
	"github.com/fireonce/fireonce/internal/connector/transport"
)

func TestOrigins(t *testing.T) {
	o, err := kit.ParseOrigins("settings.http", []string{"https://API.example.org/", "http://127.0.0.1:9000", "https://[::1]:8443"})
	if err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]bool{
		"https://api.example.org/v1/charges?x=1": true, "https://api.example.org:443/": true, "http://127.0.0.1:9000/a": true, "https://[::1]:8443/": true,
		"http://api.example.org/": false, "https://api.example.org:8443/": false, "https://api.example.org.evil.example/": false,
		"https://evil.example/https://api.example.org": false, "http://127.0.0.1/": false, "https://example.org/": false,
	} {
		u, err := transport.ParseURL(text)
		if err != nil {
			t.Fatal(err)
		}
		if o.Allow(u) != want {
			t.Errorf("%s: allowed %t", text, !want)
		}
	}
	var many []string
	for i := range kit.MaxOrigins + 1 {
		many = append(many, fmt.Sprintf("https://h%d.example", i))
	}
	for name, c := range map[string]struct {
		named []string
		sent  bool
	}{
		"a secret for any place": {nil, true}, "path": {[]string{"https://a.example/v1"}, false}, "query": {[]string{"https://a.example?x"}, false},
		"user": {[]string{"https://u@a.example"}, false}, "scheme": {[]string{"ftp://a.example"}, false}, "too many": {many, true}, "name": {[]string{"a.example"}, false},
	} {
		o, err := kit.ParseOrigins("settings.http", c.named)
		if err == nil && c.sent {
			err = o.CheckSent("settings.http", []transport.Header{{Name: "X-Key", Value: "secret"}})
		}
		var input *connector.InputError
		if !errors.As(err, &input) || input.Reason != connector.BadSettings {
			t.Errorf("%s: %v", name, err)
		}
	}
	// Without secrets and without names, any place.
	anywhere, err := kit.ParseOrigins("settings.http", nil)
	if err != nil || anywhere.CheckSent("settings.http", nil) != nil || !anywhere.Allow(&url.URL{Scheme: "https", Host: "a.example"}) {
		t.Error(err)
	}
}
