package platform_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/fireonce/fireonce/internal/proof/chaos/platform"
)

// wall is a site of a test: what is posted to it is what it has made.
type wall struct {
	mu    sync.Mutex
	posts []string
	valid string
}

func (f *wall) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	f.mu.Lock()
	defer f.mu.Unlock()
	if r.Method == http.MethodPost {
		f.posts = append(f.posts, string(body))
	}
	w.Header().Set("X-Posts", strings.Join(f.posts, ","))
}

// startSite starts a platform with the wall before which requests go wrong.
func startSite(t *testing.T, opts platform.Options, slow bool) (*world, *wall, string) {
	t.Helper()
	f := &wall{valid: "first"}
	upstream := httptest.NewServer(f)
	t.Cleanup(upstream.Close)
	opts.Sites = []platform.Site{{
		Name: "wall", URL: upstream.URL, Slow: slow, Credential: platform.Credential{Token: "first"},
		Sort: func(r platform.Request) platform.Purpose {
			if r.Method == http.MethodPost {
				return platform.Purpose{Subject: string(r.Body), Key: r.Header.Get("Key")}
			}
			return platform.Purpose{Prepares: r.Path == "/prepare"}
		},
		Allowed: func(r platform.Request) bool {
			f.mu.Lock()
			defer f.mu.Unlock()
			return r.Header.Get("Authorization") == f.valid
		},
		Revoke: func(context.Context) (platform.Credential, error) {
			f.mu.Lock()
			defer f.mu.Unlock()
			f.valid = "second"
			return platform.Credential{Token: f.valid}, nil
		},
		Made: func(context.Context) (out []platform.Made, _ error) {
			f.mu.Lock()
			defer f.mu.Unlock()
			for _, post := range f.posts {
				out = append(out, platform.Made{Subject: post, ID: "id-of-" + post})
			}
			return out, nil
		},
		Words: map[platform.Fault]platform.Words{
			platform.Unauthorized: {Status: http.StatusTeapot, Body: "who are you"},
			platform.RateLimit:    {Status: http.StatusTooManyRequests, Reset: "X-Reset"},
		},
	}}
	w := start(t, opts)
	places, err := platform.Control{URL: w.URL()}.Sites(t.Context())
	if err != nil || places["wall"].Credential.Token != "first" {
		t.Fatalf("%+v, %v", places, err)
	}
	return w, f, places["wall"].Address
}

var asFirst = map[string]string{"Authorization": "first", "Key": "job-1"}

// TestSiteIsCounted: what a site says that it has made is in the log, once, whatever
// its client was answered.
func TestSiteIsCounted(t *testing.T) {
	for fault, arrives := range map[platform.Fault]bool{
		platform.None: true, platform.Drop: true, platform.ErrorAfter: true, platform.ResetBefore: false, platform.Unavailable: false,
	} {
		for _, slow := range []bool{false, true} {
			opts := platform.Options{}
			if fault != platform.None {
				opts = always(fault)
			}
			w, f, url := startSite(t, opts, slow)
			status, _, err := send(t.Context(), http.MethodPost, url, "words", asFirst)
			if good := status == http.StatusOK && err == nil; good != (fault == platform.None) {
				t.Errorf("%q: %d, %v", fault, status, err)
			}
			w.settled()
			want := 0
			if arrives {
				want = 1
			}
			if slow && w.effects("words") != 0 {
				t.Errorf("%q: a slow site was asked in between", fault)
			}
			for range 2 {
				if err := (platform.Control{URL: w.URL()}).Sweep(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			w.settled()
			if err := w.Close(); err != nil { // the log is whole
				t.Fatal(err)
			}
			if got := w.effects("words"); got != want || len(f.posts) != want {
				t.Errorf("%q, slow %v: %d effects in the log, %d at the site, want %d", fault, slow, got, len(f.posts), want)
			}
			requests := slices.DeleteFunc(w.records(), func(r platform.Record) bool { return r.Type != platform.TypeRequest })
			if len(requests) != 1 || requests[0].Key != "job-1" || requests[0].Fault != fault || requests[0].Face != "wall" {
				t.Errorf("%q: %+v", fault, requests)
			}
		}
	}
}

// TestSiteWords: a site refuses in its own words, and a revoked credential whatever
// the rates are.
func TestSiteWords(t *testing.T) {
	w, f, url := startSite(t, platform.Options{}, false)
	if status, body, _ := send(t.Context(), http.MethodPost, url, "words", nil); status != http.StatusTeapot || body != "who are you" {
		t.Errorf("without a credential: %d %s", status, body)
	}
	next, err := platform.Control{URL: w.URL()}.Revoke(t.Context(), "wall")
	if err != nil || next.Token != "second" {
		t.Fatalf("%+v, %v", next, err)
	}
	if status, _, _ := send(t.Context(), http.MethodGet, url, "", asFirst); status != http.StatusTeapot {
		t.Errorf("with a credential that was revoked: %d", status)
	}
	if got := w.Totals(); len(f.posts) != 0 || got.Faults[platform.Unauthorized] != 1 || got.LookFaults[platform.Unauthorized] != 1 {
		t.Errorf("%q, %+v", f.posts, got)
	}
	if _, err := (platform.Control{URL: w.URL()}).Revoke(t.Context(), "nowhere"); err == nil {
		t.Error("the credential of no site was revoked")
	}

	_, _, url = startSite(t, always(platform.RateLimit), false)
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader("words"))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "first")
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	if resp.StatusCode != http.StatusTooManyRequests || resp.Header.Get("X-Reset") == "" {
		t.Errorf("%d, %v", resp.StatusCode, resp.Header)
	}
}

// TestSiteLooks: what makes nothing has the rates of looks, unless it begins something.
func TestSiteLooks(t *testing.T) {
	w, _, url := startSite(t, platform.Options{Faults: platform.Faults{
		Rates: platform.Rates{platform.Drop: 1}, Looks: platform.Rates{platform.Stale: 1},
	}}, false)
	if status, _, err := send(t.Context(), http.MethodGet, url+"/list", "", asFirst); status != http.StatusOK || err != nil {
		t.Errorf("a look: %d, %v", status, err)
	}
	if _, _, err := send(t.Context(), http.MethodGet, url+"/prepare", "", asFirst); err == nil {
		t.Error("what prepares was answered")
	}
	if got := w.Totals(); got.Looks != 2 || got.LookFaults[platform.Drop] != 1 || got.LookFaults[platform.Stale] != 0 || len(got.Requests) != 0 {
		t.Errorf("%+v", got)
	}
}
