package oauth

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/fireonce/fireonce/internal/connector/builtin"
	"github.com/fireonce/fireonce/internal/vault"
)

func parse(text string) (*Apps, error) {
	env := func(name string) (string, bool) { return "from " + name, name == "SECRET" || name == "SPACES" }
	return parseApps([]byte(strings.ReplaceAll(text, "'", `"`)), source{dir: "testdata", env: func(name string) (string, bool) {
		v, ok := env(name)
		return strings.ReplaceAll(v, " ", "-"), ok
	}}, builtin.Platforms, false)
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
	callback := "https://fireonce.example.org/oauth/callback/masto"
	for wanted, want := range map[string]bool{
		"": true, callback: false, "https://fireonce.example.org/oauth/callback/x": false, "https://app.example.org/cb": true, "https://app.example.org/cb/": false, "https://evil.example.org": false,
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
		`{'apps': [{'name': 'x', 'connector': 'x', 'client_id': 'me'}, {'name': 'x', 'connector': 'x', 'client_id': 'me'}]}`:                                             "taken",
		`{'apps': [{'name': 'x', 'connector': 'x', 'client_id': 'me', 'client_secret': 'hush', 'client_secret_env': 'SECRET'}]}`:                                         "more than once",
		`{'apps': [{'name': 'x', 'connector': 'x', 'client_id': 'me', 'client_secret_env': 'GONE'}]}`:                                                                    "GONE is not set",
		`{'apps': [{'name': 'x', 'connector': 'x', 'client_id': 'me', 'client_secret_file': 'gone'}]}`:                                                                   "client_secret_file",
		`{'apps': [{'name': 'x', 'connector': 'x', 'client_id': 'me', 'client_secret': 'hush hush'}]}`:                                                                   "white space",
		`{'apps': [{'name': 'x', 'connector': 'x', 'client_id': 'me', 'auth_style': 'none'}]}`:                                                                           "auth_style",
		`{'apps': [{'name': 'x', 'connector': 'x', 'client_id': 'me', 'token_url': 'http://example.org'}]}`:                                                              "token_url",
		`{'apps': [{'name': 'm', 'connector': 'mastodon', 'client_id': 'me'}]}`:                                                                                          "server",
		`{'apps': [{'name': 'm', 'connector': 'mastodon', 'client_id': 'me', 'authorization_url': 'https://m.example.org/a', 'token_url': 'https://m.example.org/t'}]}`:  "server",
		`{'apps': [{'name': 'o', 'connector': 'other', 'client_id': 'me'}]}`:                                                                                             "_url",
		`{'apps': [{'name': 'x', 'connector': 'x', 'client_id': 'me', 'redirect_urls': ['javascript:x']}]}`:                                                              "redirect_urls[0]",
		`{'apps': [{'name': 'x', 'connector': 'x', 'client_id': 'me', 'authorization_params': {'state': 'mine'}}]}`:                                                      "state",
		`{'apps': [{'name': 'x/../y', 'connector': 'x', 'client_id': 'me'}]}`:                                                                                            "name",
		`{'apps': [{'name': 'x%2f', 'connector': 'x', 'client_id': 'me'}]}`:                                                                                              "name",
		`{'apps': [{'name': 'x', 'connector': 'x', 'client_id': 'me', 'issuer': 'http://x.example.org'}]}`:                                                               "issuer",
		`{'public_url': 'https://example.org', 'apps': [{'name': 'x', 'connector': 'x', 'client_id': 'me', 'redirect_urls': ['https://example.org/oauth/callback/y']}]}`: "this server's own",
		`{'apps': [{'name': 'x', 'connector': 'x', 'client_id': 'me', 'redirect_urls': ['https://app.example.org/cb']},
			{'name': 's', 'connector': 'slack', 'client_id': 'me', 'redirect_urls': ['https://app.example.org/cb']}]}`: "a URL of its own",
		`{'apps': [{'name': 'x', 'connector': 'x', 'client_id': 'me', 'issuer': 'https://x.com', 'redirect_urls': ['https://app.example.org/cb']},
			{'name': 's', 'connector': 'slack', 'client_id': 'me', 'redirect_urls': ['https://app.example.org/cb']}]}`: `"s" has none`,
		`{'apps': [{'name': 'x', 'connector': 'x', 'client_id': 7}]}`: "client_id",
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
	apps, err := LoadApps(path, builtin.Platforms, true)
	if err != nil {
		t.Fatal(err)
	}
	if a, ok := apps.Find("x", "x"); !ok || a.ClientSecret != "hush" {
		t.Errorf("%#v", a)
	}
	if _, err := LoadApps(path, builtin.Platforms, false); err == nil {
		t.Error("http is allowed to everybody")
	}
	if _, err := LoadApps(filepath.Join(dir, "gone"), builtin.Platforms, false); err == nil {
		t.Error("no file")
	}
	var none *Apps
	if _, ok := none.Find("x", "x"); ok || none.Callback(App{Name: "x"}) != "" || len(none.Names()) != 0 {
		t.Error("no apps have some")
	}
}

// TestSecretsAreTheOwners: a file with a secret is refused as a key file is, and one
// without is not.
func TestSecretsAreTheOwners(t *testing.T) {
	const (
		inline  = `{"apps":[{"name":"x","connector":"x","client_id":"me","client_secret":"hush"}]}`
		named   = `{"apps":[{"name":"x","connector":"x","client_id":"me","client_secret_file":"secret"}]}`
		without = `{"apps":[{"name":"x","connector":"x","client_id":"me"}]}`
	)
	for name, tt := range map[string]struct {
		text         string
		file, secret os.FileMode
		refused      bool
	}{
		"inline, its owner's":         {inline, 0o600, 0o600, false},
		"inline, readable by a group": {inline, 0o640, 0o600, true},
		"inline, readable by others":  {inline, 0o604, 0o600, true},
		"inline, writable by a group": {inline, 0o620, 0o600, true},
		"a file, its owner's":         {named, 0o644, 0o400, false},
		"a file, readable by a group": {named, 0o600, 0o640, true},
		"a file, readable by others":  {named, 0o600, 0o644, true},
		"no secret, readable by all":  {without, 0o644, 0o600, false},
	} {
		dir := t.TempDir()
		path, secret := filepath.Join(dir, "apps.json"), filepath.Join(dir, "secret")
		for file, content := range map[string]string{path: tt.text, secret: "hush\n"} {
			if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if err := errors.Join(os.Chmod(path, tt.file), os.Chmod(secret, tt.secret)); err != nil {
			t.Fatal(err)
		}
		_, err := LoadApps(path, builtin.Platforms, false)
		if errors.Is(err, vault.ErrFileMode) != tt.refused || err != nil && (!tt.refused || !strings.Contains(err.Error(), "chmod 600") || strings.Contains(err.Error(), "hush")) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestCheckIssuer(t *testing.T) {
	named := App{Name: "a", Issuer: "https://home.example/realm", AuthorizationURL: "https://login.home.example/auth"}
	silent := App{Name: "b", AuthorizationURL: "https://home.example/auth"}
	for _, tt := range []struct {
		app  App
		iss  string
		want error
	}{
		{named, "https://home.example/realm", nil},
		{named, "", ErrIssuer},
		{named, "https://home.example/realm/", ErrIssuer},
		{named, "https://home.example", ErrIssuer},
		{named, "https://login.home.example", ErrIssuer},
		{silent, "", nil},
		{silent, "https://home.example", nil},
		{silent, "https://HOME.example/realm", nil},
		{silent, "https://evil.example", ErrIssuer},
		{silent, "http://home.example", ErrIssuer},
		{silent, "home.example", ErrIssuer},
	} {
		if err := tt.app.CheckIssuer(tt.iss); !errors.Is(err, tt.want) || err == nil != (tt.want == nil) {
			t.Errorf("%s with %q: %v", tt.app.Name, tt.iss, err)
		}
	}
}

// Apps may share a redirect URL if each code says whose it is.
func TestSharedRedirect(t *testing.T) {
	_, err := parse(`{'apps': [
		{'name': 'x', 'connector': 'x', 'client_id': 'me', 'issuer': 'https://x.com', 'redirect_urls': ['https://app.example.org/cb', 'https://app.example.org/cb']},
		{'name': 's', 'connector': 'slack', 'client_id': 'me', 'issuer': 'https://slack.com', 'redirect_urls': ['https://app.example.org/cb']}]}`)
	if err != nil {
		t.Error(err)
	}
}

// A ticket leads to the state, and neither the state nor what is stored of it leads back.
func TestTicket(t *testing.T) {
	ticket, err := NewTicket()
	if err != nil {
		t.Fatal(err)
	}
	other, err := NewTicket()
	if err != nil {
		t.Fatal(err)
	}
	state := StateOf(ticket)
	if !Begins(ticket, state) || Begins(other, state) || Begins(state, state) || Begins("", state) || StateOf(other) == state {
		t.Error("tickets and states do not go together")
	}
	said := Confirmation(ticket, "code")
	if !Confirms(said, ticket, "code") || Confirms(said, ticket, "other") || Confirms(said, other, "code") || Confirms("", ticket, "code") || said == state {
		t.Error("a confirmation is of one ticket and one code")
	}
}
