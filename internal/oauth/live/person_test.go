package live_test

import (
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"regexp"
	"testing"
)

// person is a person's browser, which follows redirects and keeps cookies.
type person struct {
	*testing.T
	browser *http.Client
}

func newPerson(t *testing.T) *person {
	t.Helper()
	jar, err := cookiejar.New(nil)
	must(t, err)
	return &person{t, &http.Client{Jar: jar}}
}

// seen is a page.
type seen struct {
	*http.Response
	body string
}

func (p *person) open(at string) seen {
	p.Helper()
	return p.read(p.browser.Get(at))
}

func (p *person) read(res *http.Response, err error) seen {
	p.Helper()
	must(p.T, err)
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	must(p.T, err)
	return seen{res, string(body)}
}

var tokenField = regexp.MustCompile(`name="token" value="([^"]+)"`)

// confirm says yes to what a page asks, and returns the status of what comes of it.
func (p *person) confirm(asked seen) int {
	p.Helper()
	token := tokenField.FindStringSubmatch(asked.body)
	if token == nil {
		p.Fatalf("%s: nothing is asked:\n%s", asked.Status, asked.body)
	}
	return p.read(p.browser.PostForm(asked.Request.URL.String(), url.Values{
		"token": {token[1]}, "mine": {"yes"}, "answer": {"connect"},
	})).StatusCode
}
