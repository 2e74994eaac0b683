package platform_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/fireonce/fireonce/internal/proof/chaos/platform"
)

// page is a listing.
type page struct {
	Account string
	Now     time.Time
	Posts   []struct{ ID, Text string }
	Next    *string
}

// look lists an account's posts.
func (w *world) look(account, query string) (page, int, error) {
	w.Helper()
	status, body, err := send(w.Context(), http.MethodGet, w.FeedURL(account)+"/posts?"+query, "", nil)
	var out page
	if err == nil && status == http.StatusOK {
		err = json.Unmarshal([]byte(body), &out)
	}
	return out, status, err
}

// posted makes a post without a fault.
func (w *world) posted(account, text string) {
	w.Helper()
	if status, _, err := send(w.Context(), http.MethodPost, w.FeedURL(account)+"/posts", postBody(text), nil); err != nil || status != http.StatusCreated {
		w.Fatalf("%d %v", status, err)
	}
}

// TestAccounts: each account is a feed of its own, that lists the newest first.
func TestAccounts(t *testing.T) {
	w := start(t, platform.Options{})
	for _, text := range []string{"1", "2", "3"} {
		w.posted("a", text)
	}
	w.posted("b", "other")
	got, _, err := w.look("a", "limit=2")
	if err != nil || got.Account != "a" || len(got.Posts) != 2 || got.Posts[0].Text != "3" || got.Next == nil {
		t.Fatalf("%+v %v", got, err)
	}
	if got, _, err = w.look("a", "limit=2&before="+*got.Next); err != nil || len(got.Posts) != 1 || got.Posts[0].Text != "1" || got.Next != nil {
		t.Errorf("%+v %v", got, err)
	}
	if w.Totals().Looks != 2 || w.Totals().Requests[platform.FaceFeed] != 4 {
		t.Errorf("%+v", w.Totals())
	}
	faces := make(map[string]int)
	for _, r := range w.records() {
		if r.Type == platform.TypeEffect {
			faces[r.Face]++
		}
	}
	if faces["feed/a"] != 3 || faces["feed/b"] != 1 {
		t.Errorf("%v", faces)
	}
}

// TestLag: posts are there and not listed, each for a time of its own.
func TestLag(t *testing.T) {
	w := start(t, platform.Options{Faults: platform.Faults{ReadLag: platform.Duration(24 * time.Hour)}})
	for i := range 20 {
		w.posted("a", fmt.Sprint(i))
	}
	if got, _, err := w.look("a", ""); err != nil || len(got.Posts) != 0 || w.effects("7") != 1 {
		t.Errorf("%+v %v", got, err)
	}
	if err := w.SetFaults(platform.Faults{}); err != nil {
		t.Fatal(err)
	}
	w.posted("a", "shown")
	if got, _, err := w.look("a", ""); err != nil || len(got.Posts) != 1 || got.Posts[0].Text != "shown" {
		t.Errorf("%+v %v", got, err)
	}
}

// TestLookFaults: a look that fails is no list, and changes nothing.
func TestLookFaults(t *testing.T) {
	for fault, want := range map[platform.Fault]int{
		platform.Drop: 0, platform.ResetMid: 0, platform.Truncate: 0, platform.Unavailable: 503, platform.RateLimit: 429,
		platform.Delay: 200, platform.Trickle: 200,
	} {
		w := start(t, platform.Options{Faults: platform.Faults{
			Looks: platform.Rates{fault: 1}, Trickle: platform.Duration(time.Millisecond), Delay: platform.Duration(time.Millisecond),
		}})
		w.posted("a", "s")
		got, status, err := w.look("a", "")
		if want == 0 && err == nil || want != 0 && (err != nil || status != want) || want == 200 && len(got.Posts) != 1 {
			t.Errorf("%s: %d %v %+v", fault, status, err, got)
		}
		if totals := w.Totals(); totals.LookFaults[fault] != 1 || len(totals.Faults) != 0 || w.effects("s") != 1 {
			t.Errorf("%s: %+v", fault, totals)
		}
	}
}

// TestBodies: a receiver drops what has a key that it has seen, whatever its body,
// and the log has it as another one.
func TestBodies(t *testing.T) {
	w := start(t, platform.Options{})
	for _, body := range []string{`{"subject":"s"}`, `{"subject":"s"}`, `{"subject":"s","amount":2}`} {
		if status, _, err := send(t.Context(), http.MethodPost, w.KeyedURL(), body, map[string]string{"Webhook-Id": "k"}); err != nil || status != http.StatusOK {
			t.Fatal(status, err)
		}
	}
	if err := w.Close(); err != nil { // its log is whole then
		t.Fatal(err)
	}
	var bodies []string
	for _, r := range w.records() {
		if r.Type == platform.TypeRequest {
			bodies = append(bodies, r.Body)
		}
	}
	if len(bodies) != 3 || bodies[0] == "" || bodies[1] != bodies[0] || bodies[2] == bodies[0] || w.effects("s") != 1 {
		t.Errorf("%q", bodies)
	}
}

// TestStale: a cache sends what it knew, and when that was.
func TestStale(t *testing.T) {
	w := start(t, platform.Options{})
	w.posted("a", "old")
	fresh, _, err := w.look("a", "limit=9")
	if err != nil {
		t.Fatal(err)
	}
	w.posted("a", "new")
	if err := w.SetFaults(platform.Faults{Looks: platform.Rates{platform.Stale: 1}}); err != nil {
		t.Fatal(err)
	}
	// What is in the cache is not old yet.
	if got, _, err := w.look("a", "limit=9"); err != nil || len(got.Posts) != 2 || w.Totals().LookFaults[platform.Stale] != 0 {
		t.Errorf("%+v %v %+v", got, err, w.Totals())
	}
	platform.Age(w.Platform, "a")
	if got, _, err := w.look("a", "limit=9"); err != nil || len(got.Posts) != 1 || !got.Now.Equal(fresh.Now) {
		t.Errorf("%+v %v", got, err)
	}
	if n := w.Totals().LookFaults[platform.Stale]; n != 1 {
		t.Errorf("%d stale listings were told", n)
	}
	// What was never asked for is in no cache.
	if got, _, err := w.look("a", "limit=8"); err != nil || len(got.Posts) != 2 || !got.Now.After(fresh.Now) {
		t.Errorf("%+v %v", got, err)
	}
}
