package server_test

import (
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"

	fireoncev1 "github.com/fireonce/fireonce/gen/fireonce/v1"
	"github.com/fireonce/fireonce/internal/oauth"
	"github.com/fireonce/fireonce/server"
	"github.com/fireonce/fireonce/store"
)

// visit is a browser that is sent to the callback.
func (f *fixture) visit(q url.Values, header map[string]string) (*http.Response, string) {
	f.tb.Helper()
	r, err := http.NewRequestWithContext(f.tb.Context(), http.MethodGet, "http://"+f.addr+oauth.CallbackPath+"?"+q.Encode(), http.NoBody)
	f.must(err)
	for name, value := range header {
		r.Header.Set(name, value)
	}
	h := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, CheckRedirect: func(*http.Request, []*http.Request) error {
		return http.ErrUseLastResponse
	}}
	res, err := h.Do(r)
	f.must(err)
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	f.must(err)
	for name, want := range map[string]string{
		"Content-Security-Policy": "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
		"Referrer-Policy":         "no-referrer", "Cache-Control": "no-store", "X-Content-Type-Options": "nosniff",
	} {
		if got := res.Header.Get(name); got != want {
			f.tb.Errorf("%s: %q", name, got)
		}
	}
	for _, secret := range []string{"<script", "secret", q.Get("state"), q.Get("code")} {
		if secret != "" && strings.Contains(string(body), secret) {
			f.tb.Errorf("the page has %q:\n%s", secret, body)
		}
	}
	return res, string(body)
}

func TestCallback(t *testing.T) {
	login := func(f *fixture, edit ...func(*fireoncev1.StartOAuthRequest)) string {
		f.tb.Helper()
		r := newMember("k")
		for _, e := range edit {
			e(r)
		}
		begun := f.startLogin(overConnect(f), r)
		if !strings.Contains(begun.GetAuthorizationUrl(), url.QueryEscape(callbackURL)) {
			f.tb.Errorf("%v", begun)
		}
		return begun.GetState()
	}
	returning := func(r *fireoncev1.StartOAuthRequest) { r.ReturnUrl = doneURL }
	conns := func(f *fixture) int {
		f.tb.Helper()
		all, err := f.store.ListConnections(f.tb.Context(), store.ConnectionQuery{Project: server.DefaultProject})
		f.must(err)
		return len(all) - 1
	}
	for name, test := range map[string]func(t *testing.T, f *fixture, p *tokens){
		"connected": func(t *testing.T, f *fixture, _ *tokens) {
			q := url.Values{"state": {login(f)}, "code": {"anns-code"}}
			res, body := f.visit(q, nil)
			if res.StatusCode != http.StatusOK || !strings.Contains(body, "The account is connected") || conns(f) != 1 {
				t.Errorf("%s\n%s", res.Status, body)
			}
			res, body = f.visit(q, nil)
			if res.StatusCode != http.StatusNotFound || !strings.Contains(body, "has ended already") || conns(f) != 1 {
				t.Errorf("twice: %s\n%s", res.Status, body)
			}
		},
		"sent back": func(t *testing.T, f *fixture, _ *tokens) {
			res, _ := f.visit(url.Values{"state": {login(f, returning)}, "code": {"anns-code"}}, nil)
			to, err := url.Parse(res.Header.Get("Location"))
			f.must(err)
			id := to.Query().Get("connection_id")
			if res.StatusCode != http.StatusSeeOther || to.Host != "app.example.org" || to.Query().Get("user") != "7" ||
				f.connection(overConnect(f), id).GetAccountIdentity() != "anns" {
				t.Errorf("%s to %s", res.Status, to)
			}
		},
		"declined": func(t *testing.T, f *fixture, p *tokens) {
			q := url.Values{"state": {login(f, returning)}, "error": {"access_denied"}, "error_description": {"<script>secret</script>"}}
			res, body := f.visit(q, nil)
			if res.StatusCode != http.StatusBadRequest || !strings.Contains(body, "was declined") ||
				!strings.Contains(body, `href="https://app.example.org/done?user=7"`) || p.requests.Load() != 0 {
				t.Errorf("%s\n%s", res.Status, body)
			}
			if res, _ := f.visit(url.Values{"state": q["state"], "code": {"anns-code"}}, nil); res.StatusCode != http.StatusNotFound {
				t.Errorf("after that: %s", res.Status)
			}
		},
		"the platform fails": func(t *testing.T, f *fixture, p *tokens) {
			for said, words := range map[string]string{
				"temporarily_unavailable": "log in again later", "server_error": "log in again later",
				"invalid_scope": "have to put that right", "unauthorized_client": "have to put that right", "<script>secret": "have to put that right",
			} {
				q := url.Values{"state": {login(f, returning)}, "error": {said}, "error_description": {"<script>secret</script>"}, "code": {"anns-code"}}
				res, body := f.visit(q, nil)
				if res.StatusCode != http.StatusBadGateway || !strings.Contains(body, words) || strings.Contains(body, "declined") || conns(f) != 0 {
					t.Errorf("%s: %s\n%s", said, res.Status, body)
				}
				if logged := strings.Contains(f.logs.String(), "error="+said) || strings.Contains(f.logs.String(), `"error":"`+said); logged == strings.Contains(said, "<") {
					t.Errorf("%s: the log is\n%s", said, f.logs)
				}
			}
			if p.requests.Load() != 0 {
				t.Errorf("%d requests", p.requests.Load())
			}
		},
		"the answer is lost": func(t *testing.T, f *fixture, p *tokens) {
			p.answer = func(http.ResponseWriter) { panic(http.ErrAbortHandler) }
			res, body := f.visit(url.Values{"state": {login(f)}, "code": {"anns-code"}}, nil)
			if res.StatusCode != http.StatusBadGateway || !strings.Contains(body, "log in again") || conns(f) != 0 {
				t.Errorf("%s\n%s", res.Status, body)
			}
		},
		"another account": func(t *testing.T, f *fixture, _ *tokens) {
			if res, _ := f.visit(url.Values{"state": {login(f)}, "code": {"anns-code"}}, nil); res.StatusCode != http.StatusOK {
				t.Fatal(res.Status)
			}
			res, body := f.visit(url.Values{"state": {login(f)}, "code": {"bobs-code"}}, nil)
			if res.StatusCode != http.StatusConflict || !strings.Contains(body, "another account") {
				t.Errorf("%s\n%s", res.Status, body)
			}
		},
		"a login that is the client's to end": func(t *testing.T, f *fixture, p *tokens) {
			begun := f.startLogin(overConnect(f), own(newMember("k")))
			if res, _ := f.visit(url.Values{"state": {begun.GetState()}, "code": {"anns-code"}}, nil); res.StatusCode != http.StatusNotFound || p.requests.Load() != 0 {
				t.Errorf("%s, %d requests", res.Status, p.requests.Load())
			}
		},
		"what is no navigation": func(t *testing.T, f *fixture, p *tokens) {
			q := url.Values{"state": {login(f)}, "code": {"anns-code"}}
			if res, _ := f.visit(q, map[string]string{"Sec-Purpose": "prefetch"}); res.StatusCode != http.StatusMethodNotAllowed {
				t.Error(res.Status)
			}
			if res, _ := f.do(http.MethodHead, oauth.CallbackPath+"?"+q.Encode(), "", nil); res.StatusCode != http.StatusMethodNotAllowed {
				t.Error(res.Status)
			}
			if p.requests.Load() != 0 {
				t.Fatal("the code was used")
			}
			if res, _ := f.visit(q, nil); res.StatusCode != http.StatusOK {
				t.Error(res.Status)
			}
		},
		"nonsense": func(t *testing.T, f *fixture, p *tokens) {
			for _, q := range []url.Values{
				{}, {"code": {"their-code"}}, {"state": {strings.Repeat("s", 129)}, "code": {"their-code"}}, {"state": {"a b"}, "code": {"their-code"}},
				{"state": {"unknown"}, "code": {"their-code"}},
			} {
				if res, _ := f.visit(q, nil); res.StatusCode != http.StatusNotFound {
					t.Errorf("%v: %s", q, res.Status)
				}
			}
			for _, code := range []string{"", "a b", strings.Repeat("c", 4097)} {
				if res, _ := f.visit(url.Values{"state": {login(f)}, "code": {code}}, nil); res.StatusCode != http.StatusBadRequest {
					t.Errorf("code %.10q: %s", code, res.Status)
				}
			}
			if p.requests.Load() != 0 {
				t.Errorf("%d requests", p.requests.Load())
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			p, with := withOAuth(t)
			f := start(t, with)
			test(t, f, p)
			f.quiet("anns-code", "bobs-code")
		})
	}
}

// The callback is for browsers, which have no key; the login tells whose it is.
func TestCallbackNeedsNoKey(t *testing.T) {
	_, with := withOAuth(t)
	f := start(t, with, func(c *server.Config) { c.APIKey = "open-sesame-0123456789" })
	if res, _ := f.visit(url.Values{"state": {"unknown"}, "code": {"their-code"}}, nil); res.StatusCode != http.StatusNotFound {
		t.Error(res.Status)
	}
}
