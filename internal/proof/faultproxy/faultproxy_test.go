package faultproxy_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fireonce/fireonce/internal/proof/faultproxy"
)

// What arrives at the platform, and what the client hears of it, for each fault.
func TestFaults(t *testing.T) {
	for fault, want := range map[faultproxy.Fault]struct {
		arrives int64
		status  int // 0: no complete answer
	}{
		faultproxy.Pass:          {1, 201},
		faultproxy.DropBefore:    {0, 0},
		faultproxy.DropAfter:     {1, 0},
		faultproxy.FailAfter:     {1, 502},
		faultproxy.SilentAfter:   {1, 0},
		faultproxy.TruncateAfter: {1, 0},
		faultproxy.Refuse:        {0, 429},
	} {
		t.Run(fault.String(), func(t *testing.T) {
			var arrived atomic.Int64
			platform := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				body, _ := io.ReadAll(r.Body)
				if r.URL.RequestURI() != "/base/post?a=%2F" || string(body) != "hello" || r.Header.Get("X-A") != "b" {
					t.Errorf("arrived as %s %q", r.URL.RequestURI(), body)
				}
				arrived.Add(1)
				w.Header().Set("X-Platform", "yes")
				w.WriteHeader(http.StatusCreated)
				_, _ = io.WriteString(w, `{"id":"1234"}`)
			}))
			defer platform.Close()
			fate := faultproxy.Fate{Fault: fault, Status: 429, Header: http.Header{"Retry-After": {"7"}}, Body: "slow down"}
			p, err := faultproxy.Start(platform.URL+"/base", faultproxy.On("POST", "/post", fate, faultproxy.Fate{}))
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = p.Close() }()
			status, body := post(t, p.URL()+"/post?a=%2F", fault == faultproxy.SilentAfter)
			if status != want.status || arrived.Load() != want.arrives {
				t.Errorf("%d arrived, the client heard %d %q", arrived.Load(), status, body)
			}
			if fault == faultproxy.Refuse && body != "slow down" {
				t.Errorf("the refusal says %q", body)
			}
			if p.Delivered()[fault] != 1 {
				t.Errorf("delivered %v", p.Delivered())
			}
			if status, body = post(t, p.URL()+"/post?a=%2F", false); status != 201 || body != `{"id":"1234"}` {
				t.Errorf("after the plan's end: %d %q", status, body)
			}
		})
	}
}

// post returns the status and the body of a complete answer, else 0.
func post(t *testing.T, url string, silent bool) (int, string) {
	t.Helper()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: 10 * time.Second}
	if silent {
		client.Timeout = 200 * time.Millisecond
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader("hello"))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("X-A", "b")
	resp, err := client.Do(req)
	if err != nil {
		return 0, fmt.Sprint(err)
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return 0, fmt.Sprint(err)
	}
	return resp.StatusCode, string(body)
}
