package server_test

import (
	"html"
	"io"
	"net/http"
	"net/url"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/fireonce/fireonce/clients/go/connectionsv1"
	"github.com/fireonce/fireonce/clients/go/fireoncev1"
	"github.com/fireonce/fireonce/internal/oauth"
	"github.com/fireonce/fireonce/server"
	"github.com/fireonce/fireonce/store"
)

// browser is a person's browser. It keeps cookies as one that has reached the server at
// its public URL.
type browser struct {
	*fixture
	cookies map[string]*http.Cookie
	// header is what it says beside that.
	header map[string]string
}

func (f *fixture) browser() *browser {
	return &browser{fixture: f, cookies: map[string]*http.Cookie{}, header: map[string]string{
		"Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document", "Sec-Fetch-Site": "cross-site",
	}}
}

// seen is what a browser gets.
type seen struct {
	*http.Response
	body string
}

// get goes to a path of the server.
func (b *browser) get(path string) seen { return b.send(http.MethodGet, path, "") }

func (b *browser) send(method, path, form string) seen {
	b.tb.Helper()
	r, err := http.NewRequestWithContext(b.tb.Context(), method, "http://"+b.addr+path, strings.NewReader(form))
	b.must(err)
	for name, value := range b.header {
		r.Header.Set(name, value)
	}
	for _, c := range b.cookies {
		if strings.HasPrefix(r.URL.Path, c.Path) {
			r.AddCookie(&http.Cookie{Name: c.Name, Value: c.Value})
		}
	}
	if method == http.MethodPost {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	h := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, CheckRedirect: func(*http.Request, []*http.Request) error {
		return http.ErrUseLastResponse
	}}
	res, err := h.Do(r)
	b.must(err)
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	b.must(err)
	for _, c := range res.Cookies() {
		if c.MaxAge < 0 {
			delete(b.cookies, c.Name)
		} else {
			b.cookies[c.Name] = c
		}
	}
	b.careful(res, string(body), r.URL.Query())
	return seen{res, string(body)}
}

// careful makes sure that a page is one: no script, no frame, nothing kept, and nothing of
// the request on it.
func (b *browser) careful(res *http.Response, body string, q url.Values) {
	b.tb.Helper()
	forms := "'none'"
	if strings.Contains(body, "<form") {
		forms = "'self'"
	}
	for name, want := range map[string]string{
		"Content-Security-Policy": "default-src 'none'; base-uri 'none'; form-action " + forms + "; frame-ancestors 'none'",
		"Referrer-Policy":         "no-referrer", "Cache-Control": "no-store", "X-Content-Type-Options": "nosniff", "X-Frame-Options": "DENY",
	} {
		if got := res.Header.Get(name); got != want {
			b.tb.Errorf("%s: %q", name, got)
		}
	}
	for _, secret := range []string{"<script", "secret", q.Get("state"), q.Get("code"), q.Get(oauth.TicketParam)} {
		if secret != "" && strings.Contains(body, secret) {
			b.tb.Errorf("the page has %q:\n%s", secret, body)
		}
	}
}

// begin begins a login at the server's own page, and returns its state.
func (b *browser) begin(edit ...func(*connectionsv1.StartOAuthRequest)) string {
	b.tb.Helper()
	r := newMember("k")
	for _, e := range edit {
		e(r)
	}
	begun := b.startLogin(overConnect(b.fixture), r)
	path, ours := strings.CutPrefix(begun.GetAuthorizationUrl(), publicURL)
	if !ours || begun.GetState() != "" {
		b.tb.Fatalf("begun: %v", begun)
	}
	return b.open(path)
}

// open opens the URL at which a login begins, and returns the state that the platform gets.
func (b *browser) open(path string) string {
	b.tb.Helper()
	res := b.get(path)
	to, err := res.Location()
	b.must(err)
	if q := to.Query(); res.StatusCode != http.StatusSeeOther || to.Host != "platform.example.org" || q.Get("redirect_uri") != callbackURL ||
		q.Get("code_challenge_method") != "S256" || q.Get("state") == "" {
		b.tb.Fatalf("%s to %s", res.Status, to)
	}
	return to.Query().Get("state")
}

// callback is where the platform sends a browser back.
func callback(q url.Values) string { return oauth.CallbackPath + "app?" + q.Encode() }

// back is what the platform sends a browser back with.
func back(state, code string) string { return callback(url.Values{"state": {state}, "code": {code}}) }

var tokenField = regexp.MustCompile(`name="token" value="([^"]+)"`)

// form reads the form of a page, filled in as said.
func (b *browser) form(page seen, answer string, mine bool) string {
	b.tb.Helper()
	token := tokenField.FindStringSubmatch(page.body)
	if page.StatusCode != http.StatusOK || token == nil {
		b.tb.Fatalf("no form: %s\n%s", page.Status, page.body)
	}
	q := url.Values{"token": {html.UnescapeString(token[1])}, "answer": {answer}}
	if mine {
		q.Set("mine", "yes")
	}
	return q.Encode()
}

// confirm is a person who confirms what the page at a path asks.
func (b *browser) confirm(path string) seen {
	b.tb.Helper()
	return b.post(path, b.form(b.get(path), "connect", true))
}

// post sends a form as a page of the server does.
func (b *browser) post(path, form string) seen {
	b.tb.Helper()
	site := b.header["Sec-Fetch-Site"]
	b.header["Sec-Fetch-Site"] = "same-origin"
	defer func() { b.header["Sec-Fetch-Site"] = site }()
	return b.send(http.MethodPost, path, form)
}

// made counts the connections that logins have made.
func (f *fixture) made() int {
	f.tb.Helper()
	all, err := f.store.ListConnections(f.tb.Context(), store.ConnectionQuery{Project: server.DefaultProject})
	f.must(err)
	return len(all.Connections) - 1
}

// wants compares a page with what is said on it, and what has come of the login.
func (b *browser) wants(got seen, status int, words string, made int) {
	b.tb.Helper()
	if got.StatusCode != status || !strings.Contains(got.body, words) || b.made() != made {
		b.tb.Errorf("%s, %d connections; want %d, %d and %q\n%s", got.Status, b.made(), status, made, words, got.body)
	}
}

func inBrowser(t *testing.T, name string, test func(t *testing.T, b *browser, p *tokens)) {
	t.Run(name, func(t *testing.T) {
		p, with := withOAuth(t)
		b := start(t, with).browser()
		test(t, b, p)
		b.quiet("anns-code", "bobs-code")
	})
}

// wants checks the number of requests to the token endpoint.
func (p *tokens) wants(t *testing.T, n int32) {
	t.Helper()
	if got := p.requests.Load(); got != n {
		t.Errorf("%d requests to the token endpoint, want %d", got, n)
	}
}

func TestLoginAtOurPage(t *testing.T) {
	inBrowser(t, "connected", func(t *testing.T, b *browser, p *tokens) {
		path := back(b.begin(), "anns-code")
		asked := b.get(path)
		b.wants(asked, http.StatusOK, "Project <strong>default</strong>", 0)
		b.wants(asked, http.StatusOK, "<strong>Ann</strong>", 0)
		b.wants(b.get(path), http.StatusOK, "Only go on if you began this yourself", 0)
		p.wants(t, 0)
		b.wants(b.confirm(path), http.StatusOK, "The account is connected", 1)
		p.wants(t, 1)
		if len(b.cookies) != 0 {
			t.Errorf("cookies are left: %v", b.cookies)
		}
		b.wants(b.get(path), http.StatusNotFound, "has ended already", 1)
	})
	inBrowser(t, "again", func(t *testing.T, b *browser, p *tokens) {
		b.confirm(back(b.begin(), "anns-code"))
		list, err := b.store.ListConnections(t.Context(), store.ConnectionQuery{Project: server.DefaultProject})
		b.must(err)
		again := func(r *connectionsv1.StartOAuthRequest) {
			r.Target = &connectionsv1.StartOAuthRequest_ConnectionId{ConnectionId: list.Connections[0].ID.String()}
		}
		path := back(b.begin(again), "anns-code-2")
		b.wants(b.get(path), http.StatusOK, "<strong>anns</strong>", 1)
		b.wants(b.confirm(path), http.StatusOK, "The account is connected", 1)
		b.wants(b.confirm(back(b.begin(again), "bobs-code")), http.StatusConflict, "another account", 1)
	})
	inBrowser(t, "not confirmed", func(t *testing.T, b *browser, p *tokens) {
		path := back(b.begin(), "anns-code")
		form := b.form(b.get(path), "connect", false)
		b.wants(b.post(path, form), http.StatusOK, "I know who asked for this", 0)
		b.wants(b.post(path, b.form(b.get(path), "no", false)), http.StatusOK, "Nothing was stored", 0)
		b.wants(b.get(path), http.StatusNotFound, "has ended already", 0)
		p.wants(t, 0)
	})
	inBrowser(t, "two logins in one browser", func(t *testing.T, b *browser, p *tokens) {
		one := b.begin()
		two := b.begin(func(r *connectionsv1.StartOAuthRequest) { r.GetCreate().IdempotencyKey = "k2" })
		b.wants(b.confirm(back(one, "anns-code")), http.StatusOK, "The account is connected", 1)
		b.wants(b.confirm(back(two, "bobs-code")), http.StatusOK, "The account is connected", 2)
	})
	inBrowser(t, "a name that is markup", func(t *testing.T, b *browser, p *tokens) {
		state := b.begin(func(r *connectionsv1.StartOAuthRequest) {
			r.GetCreate().Connection.DisplayName = `</strong><script>x</script><a href="https://evil.example">`
		})
		if got := b.get(back(state, "anns-code")); strings.Contains(got.body, "<a ") || got.StatusCode != http.StatusOK {
			t.Errorf("%s\n%s", got.Status, got.body)
		}
	})
	inBrowser(t, "the answer is lost", func(t *testing.T, b *browser, p *tokens) {
		p.answer = func(http.ResponseWriter) { panic(http.ErrAbortHandler) }
		b.wants(b.confirm(back(b.begin(), "anns-code")), http.StatusBadGateway, "A login can be used only once", 0)
		p.wants(t, 1)
	})
}

// A login of one person is of no use in the browser of another one: neither a code that another
// person brings, nor a link to the platform that another person sends.
func TestLoginIsOneBrowsers(t *testing.T) {
	const elsewhere = "not begun in this browser"
	inBrowser(t, "another browser", func(t *testing.T, b *browser, p *tokens) {
		path := back(b.begin(), "anns-code")
		victim := b.browser()
		victim.wants(victim.get(path), http.StatusForbidden, elsewhere, 0)
		form := b.form(b.get(path), "connect", true)
		victim.wants(victim.post(path, form), http.StatusForbidden, elsewhere, 0)
		p.wants(t, 0)
		b.wants(b.confirm(path), http.StatusOK, "The account is connected", 1)
	})
	inBrowser(t, "another login's cookie", func(t *testing.T, b *browser, p *tokens) {
		state := b.begin()
		victim := b.browser()
		victim.begin(func(r *connectionsv1.StartOAuthRequest) { r.GetCreate().IdempotencyKey = "k2" })
		for _, c := range victim.cookies {
			for name := range b.cookies {
				victim.cookies[name] = &http.Cookie{Name: name, Value: c.Value, Path: "/"}
			}
		}
		victim.wants(victim.get(back(state, "anns-code")), http.StatusForbidden, elsewhere, 0)
		p.wants(t, 0)
	})
	inBrowser(t, "another code than was confirmed", func(t *testing.T, b *browser, p *tokens) {
		state := b.begin()
		form := b.form(b.get(back(state, "anns-code")), "connect", true)
		b.wants(b.post(back(state, "bobs-code"), form), http.StatusForbidden, elsewhere, 0)
		b.wants(b.post(back(state, "anns-code"), strings.Replace(form, "token=", "token=x", 1)), http.StatusForbidden, elsewhere, 0)
		b.wants(b.post(back(state, "anns-code"), "answer=connect&mine=yes"), http.StatusForbidden, elsewhere, 0)
		b.wants(b.post(back(state, "anns-code"), form+"&x="+strings.Repeat("x", 5000)), http.StatusForbidden, elsewhere, 0)
		p.wants(t, 0)
		b.wants(b.post(back(state, "anns-code"), form), http.StatusOK, "The account is connected", 1)
	})
	inBrowser(t, "a form of another site", func(t *testing.T, b *browser, p *tokens) {
		path := back(b.begin(), "anns-code")
		form := b.form(b.get(path), "connect", true)
		for _, site := range []string{"cross-site", "same-site", "none"} {
			b.header["Sec-Fetch-Site"] = site
			b.wants(b.send(http.MethodPost, path, form), http.StatusForbidden, "", 0)
		}
		p.wants(t, 0)
	})
	inBrowser(t, "the cookie", func(t *testing.T, b *browser, p *tokens) {
		b.begin()
		for name, c := range b.cookies {
			if !strings.HasPrefix(name, "__Host-") || !c.Secure || !c.HttpOnly || c.SameSite != http.SameSiteLaxMode || c.Path != "/" ||
				c.Domain != "" || c.MaxAge != int(oauth.LoginTime.Seconds()) {
				t.Errorf("%+v", c)
			}
		}
		if len(b.cookies) != 1 {
			t.Errorf("%d cookies", len(b.cookies))
		}
	})
}

// What looks at links before people do, and what sites embed, begins and ends nothing.
func TestOnlyNavigationsCount(t *testing.T) {
	for name, header := range map[string]map[string]string{
		"prefetch": {"Sec-Purpose": "prefetch"}, "old prefetch": {"Purpose": "prefetch"},
		"image": {"Sec-Fetch-Mode": "no-cors", "Sec-Fetch-Dest": "image"}, "fetch": {"Sec-Fetch-Mode": "cors", "Sec-Fetch-Dest": "empty"},
		"frame": {"Sec-Fetch-Dest": "iframe"}, "object": {"Sec-Fetch-Dest": "object"},
	} {
		inBrowser(t, name, func(t *testing.T, b *browser, p *tokens) {
			path := back(b.begin(), "anns-code")
			start := strings.TrimPrefix(b.startLogin(overConnect(b.fixture), newMember("k2")).GetAuthorizationUrl(), publicURL)
			person := b.header
			b.header = map[string]string{"Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}
			for name, value := range header {
				b.header[name] = value
			}
			cookies := len(b.cookies)
			b.wants(b.get(path), http.StatusForbidden, "", 0)
			b.wants(b.get(start), http.StatusForbidden, "", 0)
			if len(b.cookies) != cookies {
				t.Error("a cookie was set")
			}
			b.header = person
			b.wants(b.confirm(path), http.StatusOK, "The account is connected", 1)
		})
	}
	inBrowser(t, "HEAD, and a browser that says nothing", func(t *testing.T, b *browser, p *tokens) {
		path := back(b.begin(), "anns-code")
		b.wants(b.send(http.MethodHead, path, ""), http.StatusMethodNotAllowed, "", 0)
		b.header = map[string]string{}
		b.wants(b.confirm(path), http.StatusOK, "The account is connected", 1)
	})
}

func TestLoginThatThePlatformEnds(t *testing.T) {
	ends := func(state, said string) string {
		return callback(url.Values{"state": {state}, "error": {said}, "error_description": {"<script>secret</script>"}, "code": {"anns-code"}})
	}
	inBrowser(t, "declined", func(t *testing.T, b *browser, p *tokens) {
		state := b.begin()
		victim := b.browser()
		victim.wants(victim.get(ends(state, "access_denied")), http.StatusForbidden, "not begun in this browser", 0)
		b.wants(b.get(ends(state, "access_denied")), http.StatusBadRequest, "was declined", 0)
		b.wants(b.get(back(state, "anns-code")), http.StatusNotFound, "has ended already", 0)
		p.wants(t, 0)
	})
	for said, words := range map[string]string{
		"temporarily_unavailable": "Begin again later", "server_error": "Begin again later",
		"invalid_scope": "have to put that right", "unauthorized_client": "have to put that right", "<script>secret": "have to put that right",
	} {
		inBrowser(t, said, func(t *testing.T, b *browser, p *tokens) {
			b.wants(b.get(ends(b.begin(), said)), http.StatusBadGateway, words, 0)
			if logged := strings.Contains(b.logs.String(), "error="+said) || strings.Contains(b.logs.String(), `"error":"`+said); logged == strings.Contains(said, "<") {
				t.Errorf("the log is\n%s", b.logs)
			}
			p.wants(t, 0)
		})
	}
	inBrowser(t, "nonsense", func(t *testing.T, b *browser, p *tokens) {
		state := b.begin()
		for _, q := range []url.Values{
			{}, {"code": {"their-code"}}, {"state": {strings.Repeat("s", 129)}, "code": {"their-code"}}, {"state": {"a b"}, "code": {"their-code"}},
			{"state": {"unknown"}, "code": {"their-code"}}, {"state": {state, state}, "code": {"their-code"}},
			{"state": {state}, "code": {"their-code", "their-code"}}, {"state": {state}, "code": {"their-code"}, "iss": {strings.Repeat("i", 2049)}},
		} {
			b.wants(b.get(callback(q)), http.StatusNotFound, "has ended already", 0)
		}
		for _, start := range []string{"", "?login=", "?login=a+b", "?login=" + state, "?login=" + strings.Repeat("l", 129)} {
			b.wants(b.get(oauth.StartPath+start), http.StatusNotFound, "has ended already", 0)
		}
		for _, code := range []string{"", "a b", strings.Repeat("c", 4097)} {
			b.wants(b.get(back(b.begin(), code)), http.StatusBadRequest, "was declined", 0)
		}
		p.wants(t, 0)
	})
}

// A code goes to no other platform than the one that it came from.
func TestCodesOfOtherApps(t *testing.T) {
	inBrowser(t, "another app's redirect URL", func(t *testing.T, b *browser, p *tokens) {
		state := b.begin()
		q := url.Values{"state": {state}, "code": {"anns-code"}}
		for _, app := range []string{"other", "gone", "APP"} {
			b.wants(b.get(oauth.CallbackPath+app+"?"+q.Encode()), http.StatusBadRequest, "does not belong to this login", 0)
		}
		if res, _ := b.do(http.MethodGet, strings.TrimSuffix(oauth.CallbackPath, "/")+"?"+q.Encode(), "", nil); res.StatusCode != http.StatusNotFound {
			t.Errorf("a callback of no app: %s", res.Status)
		}
		p.wants(t, 0)
	})
	inBrowser(t, "an issuer that is not the app's", func(t *testing.T, b *browser, p *tokens) {
		state := b.begin()
		issued := func(iss string) string {
			return callback(url.Values{"state": {state}, "code": {"anns-code"}, "iss": {iss}})
		}
		for _, iss := range []string{"https://evil.example.org", "https://platform.example.org.evil.example", "platform.example.org"} {
			b.wants(b.get(issued(iss)), http.StatusBadRequest, "does not belong to this login", 0)
			b.wants(b.post(issued(iss), ""), http.StatusBadRequest, "does not belong to this login", 0)
		}
		p.wants(t, 0)
		b.wants(b.confirm(issued("https://platform.example.org")), http.StatusOK, "The account is connected", 1)
	})
}

// handedOver begins a login that ends at the application.
func (b *browser) handedOver(edit ...func(*connectionsv1.StartOAuthRequest)) string {
	b.tb.Helper()
	r := newMember("k")
	r.ReturnUrl = doneURL
	for _, e := range edit {
		e(r)
	}
	begun := b.startLogin(overConnect(b.fixture), r)
	if !strings.HasPrefix(begun.GetAuthorizationUrl(), "https://platform.example.org/login?") || begun.GetState() == "" {
		b.tb.Fatalf("begun: %v", begun)
	}
	return begun.GetState()
}

// complete ends a login as an application does.
func (b *browser) complete(r *connectionsv1.CompleteOAuthRequest) error {
	_, err := ask[connectionsv1.CompleteOAuthResponse](b.tb, overConnect(b.fixture), connsPath+"CompleteOAuth", r)
	return err
}

// A login with a return URL is the application's to end: what the platform says is handed
// over, and this server stores nothing by itself.
func TestLoginIsHandedOver(t *testing.T) {
	over := func(b *browser, path string) url.Values {
		b.tb.Helper()
		res := b.get(path)
		to, err := res.Location()
		b.must(err)
		if res.StatusCode != http.StatusSeeOther || to.Host != "app.example.org" || to.Path != "/done" || to.Query().Get("user") != "7" ||
			len(res.Cookies()) != 0 || b.made() != 0 {
			b.tb.Errorf("%s to %s, %d connections", res.Status, to, b.made())
		}
		return to.Query()
	}
	inBrowser(t, "a code", func(t *testing.T, b *browser, p *tokens) {
		state := b.handedOver()
		for range 2 { // as often as the browser comes
			if q := over(b, back(state, "anns-code")); q.Get("state") != state || q.Get("code") != "anns-code" || q.Has("iss") || q.Has("error") {
				t.Errorf("%v", q)
			}
		}
		p.wants(t, 0)
		b.must(b.complete(&connectionsv1.CompleteOAuthRequest{State: state, Code: "anns-code"}))
		wantReason(t, b.complete(&connectionsv1.CompleteOAuthRequest{State: state, Code: "anns-code"}), fireoncev1.ErrorReason_ERROR_REASON_OAUTH_LOGIN_NOT_FOUND)
		b.wants(b.get(back(state, "anns-code")), http.StatusNotFound, "has ended already", 1)
		p.wants(t, 1)
	})
	inBrowser(t, "an error", func(t *testing.T, b *browser, p *tokens) {
		state := b.handedOver()
		for said, want := range map[string]string{"access_denied": "access_denied", "<script>": "server_error"} {
			q := over(b, callback(url.Values{"state": {state}, "error": {said}, "code": {"anns-code"}}))
			if q.Get("error") != want || q.Has("code") || q.Get("state") != state {
				t.Errorf("%s: %v", said, q)
			}
		}
		if q := over(b, back(state, "a b")); q.Get("error") != "server_error" || q.Has("code") {
			t.Errorf("%v", q)
		}
	})
	inBrowser(t, "an answer in the application's own URL", func(t *testing.T, b *browser, p *tokens) {
		state := b.handedOver(func(r *connectionsv1.StartOAuthRequest) {
			r.ReturnUrl = doneURL + "&code=forged&iss=forged&error=forged&error_description=forged&error_uri=forged"
		})
		for path, want := range map[string]url.Values{
			back(state, "anns-code"): {"user": {"7"}, "state": {state}, "code": {"anns-code"}},
			callback(url.Values{"state": {state}, "error": {"access_denied"}}): {"user": {"7"}, "state": {state}, "error": {"access_denied"}},
		} {
			if q := over(b, path); !reflect.DeepEqual(q, want) {
				t.Errorf("%s: %v, want %v", path, q, want)
			}
		}
	})
	inBrowser(t, "no form ends it", func(t *testing.T, b *browser, p *tokens) {
		b.wants(b.post(back(b.handedOver(), "anns-code"), "answer=connect&mine=yes"), http.StatusBadRequest, "does not belong", 0)
		p.wants(t, 0)
	})
	inBrowser(t, "an issuer", func(t *testing.T, b *browser, p *tokens) {
		state := b.handedOver(func(r *connectionsv1.StartOAuthRequest) { r.App = "issued" })
		at := func(iss ...string) string {
			return oauth.CallbackPath + "issued?" + url.Values{"state": {state}, "code": {"anns-code"}, "iss": iss}.Encode()
		}
		b.wants(b.get(at()), http.StatusBadRequest, "does not belong to this login", 0)
		b.wants(b.get(at("https://platform.example.org")), http.StatusBadRequest, "does not belong to this login", 0)
		if q := over(b, at("https://issuer.example.org")); q.Get("iss") != "https://issuer.example.org" {
			t.Errorf("%v", q)
		}
		b.must(b.complete(&connectionsv1.CompleteOAuthRequest{State: state, Code: "anns-code", Issuer: "https://issuer.example.org"}))
	})
}

// An application reports what came with the browser, and a code of another platform is sent
// nowhere.
func TestCompleteChecksWhereTheCodeCame(t *testing.T) {
	begin := func(b *browser, app string) string {
		r := own(newMember("k"))
		if r.App = app; app == "issued" {
			r.RedirectUrl = issuedURL
		}
		return b.startLogin(overConnect(b.fixture), r).GetState()
	}
	const mismatch = fireoncev1.ErrorReason_ERROR_REASON_OAUTH_MISMATCH
	for name, tt := range map[string]struct {
		app, redirect, issuer string
		want                  fireoncev1.ErrorReason
	}{
		"its own":                     {"app", ownURL, "", 0},
		"its own, and its issuer":     {"app", ownURL, "https://platform.example.org", 0},
		"another app's redirect":      {"app", issuedURL, "", mismatch},
		"nearly its own":              {"app", ownURL + "/", "", mismatch},
		"another issuer":              {"app", ownURL, "https://evil.example.org", mismatch},
		"an issuer that is required":  {"issued", issuedURL, "", mismatch},
		"the issuer that is required": {"issued", issuedURL, "https://issuer.example.org", 0},
	} {
		inBrowser(t, name, func(t *testing.T, b *browser, p *tokens) {
			req := &connectionsv1.CompleteOAuthRequest{State: begin(b, tt.app), Code: "anns-code", RedirectUrl: tt.redirect, Issuer: tt.issuer}
			err := b.complete(req)
			if tt.want == 0 {
				b.must(err)
				return
			}
			wantReason(t, err, tt.want)
			p.wants(t, 0)
			wantReason(t, b.complete(req), fireoncev1.ErrorReason_ERROR_REASON_OAUTH_LOGIN_NOT_FOUND)
		})
	}
	inBrowser(t, "what is left out can be said", func(t *testing.T, b *browser, p *tokens) {
		state := begin(b, "app")
		if err := b.complete(&connectionsv1.CompleteOAuthRequest{State: state, Code: "anns-code"}); err == nil || !strings.Contains(err.Error(), "redirect_url") {
			t.Error(err)
		}
		b.must(b.complete(&connectionsv1.CompleteOAuthRequest{State: state, Code: "anns-code", RedirectUrl: ownURL}))
	})
	inBrowser(t, "a login at our page is no client's to end", func(t *testing.T, b *browser, p *tokens) {
		state := b.begin()
		for _, redirect := range []string{"", callbackURL} {
			err := b.complete(&connectionsv1.CompleteOAuthRequest{State: state, Code: "anns-code", RedirectUrl: redirect})
			wantReason(t, err, fireoncev1.ErrorReason_ERROR_REASON_OAUTH_LOGIN_NOT_FOUND)
		}
		b.wants(b.confirm(back(state, "anns-code")), http.StatusOK, "The account is connected", 1)
	})
	inBrowser(t, "a login of the client's does not end at our page", func(t *testing.T, b *browser, p *tokens) {
		b.wants(b.get(back(begin(b, "app"), "anns-code")), http.StatusNotFound, "has ended already", 0)
	})
}

// The pages are for browsers, which have no key; the login names its project.
func TestPagesNeedNoKey(t *testing.T) {
	_, with := withOAuth(t)
	b := start(t, with, func(c *server.Config) { c.APIKey = "open-sesame-0123456789" }).browser()
	for _, path := range []string{back("unknown", "their-code"), oauth.StartPath + "?login=unknown"} {
		if got := b.get(path); got.StatusCode != http.StatusNotFound {
			t.Errorf("%s: %s", path, got.Status)
		}
	}
}
