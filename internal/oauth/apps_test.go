package oauth

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func parse(text string) (*Apps, error) {
	env := func(name string) (string, bool) { return "from " + name, name == "SECRET" || name == "SPACES" }
	return parseApps([]byte(strings.ReplaceAll(text, "'", `"`)), "testdata", func(name string) (string, bool) {
		v, ok := env(name)
		return strings.ReplaceAll(v, " ", "-"), ok
	}, false)
}

func TestApps(t *testing.T) {
	apps, err := parse(`{
		'public_url': 'https://fireonce.example.org/',
		'return_urls': ['https://app.example.org/done', 'https://other.example.org'],
		'apps': [
			{'name': 'x', 'connector': 'x', 'client_id': 'me', 'client_secret': 'hush'},
			{'name': 'tt', 'connector': 'tiktok', 'client_id': 'me', 'client_secret_env': 'SECRET', 'scopes': ['video.upload']},
			{'name': 'masto', 'connector': 'mastodon', 'client_id': 'me', 'server': 'https://social.example.org/',
			 'redirect_urls': ['https://app.example.org/cb']},
			{'name': 'own', 'connector': 'custom', 'client_id': 'me', 'authorization_url': 'https://a.example.org/a', 'token_url': 'https://a.example.org/t'}
		]}`)
	if err != nil {
		t.Fatal(err)
	}
	find := func(name, connector string) App {
		t.Helper()
		a, ok := apps.Find(name, connector)
		if !ok {
			t.Fatalf("no app %s", name)
		}
		return a
	}
	if a := find("x", "x"); a.TokenURL != "https://api.x.com/2/oauth2/token" || a.AuthStyle != StyleHeader || a.ScopeSeparator != " " ||
		a.ClientIDParam != "client_id" || len(a.Scopes) == 0 || !a.refuses("invalid_request") {
		t.Errorf("%#v", a)
	}
	if a := find("tt", "tiktok"); a.ClientIDParam != "client_key" || a.ClientSecret != "from-SECRET" || a.ScopeSeparator != "," ||
		len(a.Scopes) != 1 || a.AuthStyle != StyleBody || a.refuses("invalid_request") {
		t.Errorf("%#v", a)
	}
	masto := find("masto", "mastodon")
	if masto.TokenURL != "https://social.example.org/oauth/token" || masto.AuthorizationURL != "https://social.example.org/oauth/authorize" ||
		masto.Server != "https://social.example.org" {
		t.Errorf("%#v", masto)
	}
	find("own", "custom")
	if _, ok := apps.Find("x", "slack"); ok {
		t.Error("another connector's app")
	}
	if got := strings.Join(apps.Names(), " "); got != "masto own tt x" {
		t.Errorf("names %s", got)
	}
	callback := "https://fireonce.example.org/oauth/callback"
	for wanted, want := range map[string]bool{
		"": true, callback: true, "https://app.example.org/cb": true, "https://app.example.org/cb/": false, "https://evil.example.org": false,
	} {
		got, ok := apps.Redirect(masto, wanted)
		if ok != want || wanted == "" && got != callback {
			t.Errorf("redirect %q: %q, %t", wanted, got, ok)
		}
	}
	if _, ok := apps.Redirect(find("x", "x"), "https://app.example.org/cb"); ok {
		t.Error("another app's redirect URL")
	}
}

func TestMayReturn(t *testing.T) {
	apps := &Apps{ReturnURLs: []string{"https://app.example.org/done", "https://other.example.org"}}
	for to, want := range map[string]bool{
		"https://app.example.org/done":                  true,
		"https://app.example.org/done/":                 true,
		"https://app.example.org/done/now?user=1":       true,
		"https://app.example.org/done?user=1":           true,
		"https://other.example.org":                     true,
		"https://other.example.org/anything":            true,
		"https://app.example.org/":                      false,
		"https://app.example.org/doneness":              false,
		"https://app.example.org/done/../admin":         false,
		"https://app.example.org/done/%2e%2e/admin":     false,
		"https://app.example.org/done/..%2fadmin":       false,
		"http://app.example.org/done":                   false,
		"https://app.example.org:444/done":              false,
		"https://app.example.org.evil.org/done":         false,
		"https://app.example.org@evil.org/done":         false,
		"https://user@app.example.org/done":             false,
		"https://app.example.org/done#fragment":         false,
		"//app.example.org/done":                        false,
		"javascript:alert(1)":                           false,
		"https:app.example.org/done":                    false,
		"https://evil.org/https://app.example.org/done": false,
		"": false,
	} {
		if got := apps.MayReturn(to); got != want {
			t.Errorf("%q: %t", to, got)
		}
	}
}

func TestAppsRefused(t *testing.T) {
	for text, want := range map[string]string{
		`x`:                                    "no JSON",
		`{'apps': [`:                           "no JSON",
		`{'apps': {}}`:                         "apps",
		`{} {}`:                                "follows",
		`{'client_secret': 'hush'}`:            "unknown field",
		`{'public_url': 'http://example.org'}`: "https",
		`{'public_url': 'https://example.org/?a=b'}`:                     "query",
		`{'return_urls': ['/done']}`:                                     "return_urls[0]",
		`{'apps': [{'name': 'X', 'connector': 'x', 'client_id': 'me'}]}`: "name",
		`{'apps': [{'name': 'x', 'client_id': 'me'}]}`:                   "connector",
		`{'apps': [{'name': 'x', 'connector': 'x'}]}`:                    "client_id",
		`{'apps': [{'name': 'x', 'connector': 'x', 'client_id': 'me'}, {'name': 'x', 'connector': 'x', 'client_id': 'me'}]}`:                                            "taken",
		`{'apps': [{'name': 'x', 'connector': 'x', 'client_id': 'me', 'client_secret': 'hush', 'client_secret_env': 'SECRET'}]}`:                                        "more than once",
		`{'apps': [{'name': 'x', 'connector': 'x', 'client_id': 'me', 'client_secret_env': 'GONE'}]}`:                                                                   "GONE is not set",
		`{'apps': [{'name': 'x', 'connector': 'x', 'client_id': 'me', 'client_secret_file': 'gone'}]}`:                                                                  "client_secret_file",
		`{'apps': [{'name': 'x', 'connector': 'x', 'client_id': 'me', 'client_secret': 'hush hush'}]}`:                                                                  "white space",
		`{'apps': [{'name': 'x', 'connector': 'x', 'client_id': 'me', 'auth_style': 'none'}]}`:                                                                          "auth_style",
		`{'apps': [{'name': 'x', 'connector': 'x', 'client_id': 'me', 'token_url': 'http://example.org'}]}`:                                                             "token_url",
		`{'apps': [{'name': 'm', 'connector': 'mastodon', 'client_id': 'me'}]}`:                                                                                         "server",
		`{'apps': [{'name': 'm', 'connector': 'mastodon', 'client_id': 'me', 'authorization_url': 'https://m.example.org/a', 'token_url': 'https://m.example.org/t'}]}`: "server",
		`{'apps': [{'name': 'o', 'connector': 'other', 'client_id': 'me'}]}`:                                                                                            "_url",
		`{'apps': [{'name': 'x', 'connector': 'x', 'client_id': 'me', 'redirect_urls': ['javascript:x']}]}`:                                                             "redirect_urls[0]",
		`{'apps': [{'name': 'x', 'connector': 'x', 'client_id': 'me', 'authorization_params': {'state': 'mine'}}]}`:                                                     "state",
		`{'apps': [{'name': 'x', 'connector': 'x', 'client_id': 7}]}`:                                                                                                   "client_id",
	} {
		_, err := parse(text)
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "hush") {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}

func TestLoadApps(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	write("secret", "hush\n")
	path := write("apps.json", `{"apps":[{"name":"x","connector":"x","client_id":"me","client_secret_file":"secret","token_url":"http://127.0.0.1/t"}]}`)
	apps, err := LoadApps(path, true)
	if err != nil {
		t.Fatal(err)
	}
	if a, ok := apps.Find("x", "x"); !ok || a.ClientSecret != "hush" {
		t.Errorf("%#v", a)
	}
	if _, err := LoadApps(path, false); err == nil {
		t.Error("http is allowed to everybody")
	}
	if _, err := LoadApps(filepath.Join(dir, "gone"), false); err == nil {
		t.Error("no file")
	}
	var none *Apps
	if _, ok := none.Find("x", "x"); ok || none.Callback() != "" || len(none.Names()) != 0 {
		t.Error("no apps have some")
	}
}
