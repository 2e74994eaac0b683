package server_test

import (
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/fireonce/fireonce/clients/go/adminv1"
	"github.com/fireonce/fireonce/server"
)

// who is what server.SessionPath answers.
type who struct {
	SignedIn    bool     `json:"signedIn"`
	KeyRequired bool     `json:"keyRequired"`
	Project     string   `json:"project"`
	Actor       string   `json:"actor"`
	Scopes      []string `json:"scopes"`
	Refusal     string   `json:"refusal"`
}

// signIn begins a session, and returns its cookie and the answer.
func (f *fixture) signIn(key string, header map[string]string) (*http.Response, *http.Cookie, string) {
	f.tb.Helper()
	sent := map[string]string{"Content-Type": "application/json", "Sec-Fetch-Site": "same-origin"}
	for name, value := range header {
		sent[name] = value
	}
	body, err := json.Marshal(map[string]string{"key": key})
	f.must(err)
	res, text := f.do(http.MethodPost, server.SessionPath, string(body), sent)
	for _, c := range res.Cookies() {
		return res, c, text
	}
	return res, nil, text
}

// whoIs asks who a browser with a cookie is.
func (f *fixture) whoIs(c *http.Cookie, header map[string]string) (out who) {
	f.tb.Helper()
	sent := map[string]string{}
	if c != nil {
		sent["Cookie"] = c.Name + "=" + c.Value
	}
	for name, value := range header {
		sent[name] = value
	}
	res, text := f.do(http.MethodGet, server.SessionPath, "", sent)
	if res.StatusCode != http.StatusOK || res.Header.Get("Cache-Control") != "no-store" {
		f.tb.Errorf("%d %v", res.StatusCode, res.Header)
	}
	f.must(json.Unmarshal([]byte(text), &out))
	return out
}

// listsBy calls ListJobs with a cookie, and returns the status.
func (f *fixture) listsBy(c *http.Cookie, header map[string]string) int {
	f.tb.Helper()
	sent := map[string]string{"Content-Type": "application/json", "Cookie": c.Name + "=" + c.Value}
	for name, value := range header {
		sent[name] = value
	}
	res, _ := f.do(http.MethodPost, jobsPath+"ListJobs", "{}", sent)
	return res.StatusCode
}

// TestSession: a key is sent once, and a cookie that no script reads stands for it.
func TestSession(t *testing.T) {
	f := start(t, withDashboard, withOperator)
	if got := f.whoIs(nil, nil); got.SignedIn || !got.KeyRequired || len(got.Scopes) != 0 || got.Refusal != "" {
		t.Errorf("before: %+v", got)
	}
	if res, c, text := f.signIn("wrong", nil); res.StatusCode != http.StatusUnauthorized || c != nil || strings.Contains(text, "wrong") {
		t.Errorf("a wrong key: %d %v %s", res.StatusCode, c, text)
	}
	res, c, _ := f.signIn(operatorKey, nil)
	if res.StatusCode != http.StatusOK || c == nil {
		t.Fatalf("%d %v", res.StatusCode, c)
	}
	if !c.HttpOnly || c.SameSite != http.SameSiteStrictMode || c.Secure || c.Path != "/" || c.MaxAge != 12*3600 || strings.Contains(c.Value, operatorKey) {
		t.Errorf("the cookie: %v", c)
	}
	if got := f.whoIs(c, nil); !got.SignedIn || got.Project != "default" || got.Actor != "api:key" || len(got.Scopes) != len(server.Scopes()) {
		t.Errorf("signed in: %+v", got)
	}
	if got := f.listsBy(c, nil); got != http.StatusOK {
		t.Errorf("a call: %d", got)
	}
	altered := *c
	altered.Value = c.Value[:len(c.Value)-2] + "AA"
	if got := f.listsBy(&altered, nil); got != http.StatusUnauthorized {
		t.Errorf("an altered cookie: %d", got)
	}
	other := start(t, withDashboard, withOperator)
	stolen := *c
	_, theirs, _ := other.signIn(operatorKey, nil)
	stolen.Name = theirs.Name
	if got := other.listsBy(&stolen, nil); got != http.StatusUnauthorized {
		t.Errorf("the cookie of another installation: %d", got)
	}
	res, _ = f.do(http.MethodDelete, server.SessionPath, "", map[string]string{"Sec-Fetch-Site": "same-origin"})
	if ended := res.Cookies(); res.StatusCode != http.StatusNoContent || len(ended) != 1 || ended[0].MaxAge >= 0 || ended[0].Name != c.Name {
		t.Errorf("the end: %d %v", res.StatusCode, ended)
	}
	f.clock.advance(12 * time.Hour)
	if got := f.listsBy(c, nil); got != http.StatusUnauthorized {
		t.Errorf("after twelve hours: %d", got)
	}
}

// TestSessionIsOfThePageAlone: the cookie counts for calls of the dashboard's own origin.
func TestSessionIsOfThePageAlone(t *testing.T) {
	f := start(t, withDashboard, withOperator)
	_, c, _ := f.signIn(operatorKey, nil)
	for name, header := range map[string]map[string]string{
		"another site":                     {"Sec-Fetch-Site": "cross-site"},
		"another port of the host":         {"Sec-Fetch-Site": "same-site"},
		"another origin, an older browser": {"Origin": "http://evil.example"},
	} {
		if got := f.listsBy(c, header); got != http.StatusUnauthorized {
			t.Errorf("%s: %d", name, got)
		}
		sent := map[string]string{"Sec-Fetch-Site": header["Sec-Fetch-Site"], "Origin": header["Origin"]}
		if res, made, _ := f.signIn(operatorKey, sent); made != nil || res.StatusCode != http.StatusForbidden {
			t.Errorf("a sign-in from %s: %d %v", name, res.StatusCode, made)
		}
	}
	// A GET changes nothing, and still it is answered to the page alone.
	path := jobsPath + "ListJobs?encoding=json&connect=v1&message=%7B%7D"
	for site, want := range map[string]int{"same-origin": 200, "none": 200, "same-site": 401, "cross-site": 401} {
		if res, _ := f.do(http.MethodGet, path, "", map[string]string{"Cookie": c.Name + "=" + c.Value, "Sec-Fetch-Site": site}); res.StatusCode != want {
			t.Errorf("GET from %s: %d", site, res.StatusCode)
		}
	}
	// A key that is sent wins over the cookie.
	if got := f.listsBy(c, map[string]string{"Authorization": "Bearer wrong"}); got != http.StatusUnauthorized {
		t.Errorf("a wrong key beside the cookie: %d", got)
	}
}

// TestSessionEndsWithItsKey, and is worth what the key is worth.
func TestSessionEndsWithItsKey(t *testing.T) {
	f := start(t, withDashboard, withOperator)
	c := overConnect(f)
	made, err := makeKey(bring(t.Context(), operatorKey), c, "default", []string{server.ScopeJobsRead})
	f.must(err)
	_, cookie, _ := f.signIn(made.GetSecret(), nil)
	if cookie == nil {
		t.Fatal("no session")
	}
	if got := f.whoIs(cookie, nil); !got.SignedIn || len(got.Scopes) != 1 || got.Scopes[0] != server.ScopeJobsRead {
		t.Errorf("%+v", got)
	}
	if got := f.listsBy(cookie, nil); got != http.StatusOK {
		t.Errorf("a call: %d", got)
	}
	if res, _ := f.do(http.MethodPost, accessPath+"ListApiKeys", "{}", map[string]string{"Content-Type": "application/json", "Cookie": cookie.Name + "=" + cookie.Value}); res.StatusCode != http.StatusForbidden {
		t.Errorf("a call beyond its scopes: %d", res.StatusCode)
	}
	_, err = askWith[adminv1.RevokeApiKeyResponse](bring(t.Context(), operatorKey), c, accessPath+"RevokeApiKey", &adminv1.RevokeApiKeyRequest{ApiKeyId: made.GetApiKey().GetApiKeyId()})
	f.must(err)
	f.clock.advance(time.Minute)
	if got := f.listsBy(cookie, nil); got != http.StatusUnauthorized {
		t.Errorf("after the key was revoked: %d", got)
	}
	if got := f.whoIs(cookie, nil); got.SignedIn {
		t.Errorf("after the key was revoked: %+v", got)
	}
}

// TestSessionNeedsTLSBeyondTheMachine: a key crosses no network in the clear, unless the operator says so.
func TestSessionNeedsTLSBeyondTheMachine(t *testing.T) {
	f := start(t, withDashboard, withOperator)
	far := map[string]string{"Host": "ops.example.org"}
	if res, c, text := f.signIn(operatorKey, far); res.StatusCode != http.StatusForbidden || c != nil || !strings.Contains(text, "--dashboard-url") {
		t.Errorf("plain HTTP: %d %v %s", res.StatusCode, c, text)
	}
	if got := f.whoIs(nil, far); got.Refusal == "" {
		t.Errorf("the page is not told: %+v", got)
	}
	for address, want := range map[string]string{
		"http://ops.example.org": "fireonce-", "https://ops.example.org": "__Host-fireonce-", "https://ops.example.org/fireonce": "fireonce-",
	} {
		at, err := url.Parse(address)
		f.must(err)
		f := start(t, withDashboard, withOperator, func(c *server.Config) { c.DashboardURL = at })
		res, c, _ := f.signIn(operatorKey, far)
		if res.StatusCode != http.StatusOK || !strings.HasPrefix(c.Name, want) || c.Secure != (at.Scheme == "https") || c.Path != strings.TrimSuffix(at.Path, "/")+"/" {
			t.Errorf("%s: %d %v", address, res.StatusCode, c)
		}
	}
}

// TestNoSessionWithoutKeys: where no key is required there is nothing to sign in to.
func TestNoSessionWithoutKeys(t *testing.T) {
	f := start(t, withDashboard)
	if got := f.whoIs(nil, nil); !got.SignedIn || got.KeyRequired || got.Actor != "api" {
		t.Errorf("%+v", got)
	}
	if res, _ := f.do(http.MethodGet, server.SessionPath, "", map[string]string{"Sec-Fetch-Site": "cross-site"}); res.StatusCode != http.StatusForbidden {
		t.Errorf("a page of another site learns of the server: %d", res.StatusCode)
	}
}
