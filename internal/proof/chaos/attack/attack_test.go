package attack

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// The attackers of TestProcess are this test's own binary.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "attack" {
		if err := Command(context.Background(), nil, os.Stdin, os.Stdout); err != nil {
			panic(err)
		}
		return
	}
	os.Exit(m.Run())
}

// victim is a server that waits until it was called twice with each of some keys.
type victim struct {
	*httptest.Server

	mu   sync.Mutex
	want map[string]int // by key: calls that are still to come
	all  chan struct{}  // closed when they have come
}

func newVictim(t *testing.T, want ...string) *victim {
	t.Helper()
	v := &victim{want: make(map[string]int), all: make(chan struct{})}
	for _, key := range want {
		v.want["Bearer "+key] = 2
	}
	v.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		key := r.Header.Get("Authorization")
		// Other attacks, too, come with the key that may only read.
		if key != "Bearer reads" || bytes.Contains(body, []byte("not-allowed")) {
			v.note(key)
		}
		http.Error(w, "no", http.StatusForbidden)
	}))
	t.Cleanup(v.Close)
	return v
}

func (v *victim) note(key string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.want[key] == 0 {
		return
	}
	if v.want[key]--; v.want[key] != 0 {
		return
	}
	if delete(v.want, key); len(v.want) == 0 {
		close(v.all)
	}
}

func TestTheProcessAttacksWhatItIsAimedAt(t *testing.T) {
	keys := Keys{Write: "writes", Read: "reads", Revoked: "was revoked"}
	// Each has one worker, which counts its first act before its second.
	v := newVictim(t, keys.Read, keys.Revoked)
	p, err := Spawn(t.Context(), []string{os.Args[0], "attack"}, keys)
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Aim([]Listener{{URL: v.URL, GRPC: strings.TrimPrefix(v.URL, "http://")}}); err != nil {
		t.Fatal(err)
	}
	<-v.all
	tally, err := p.Stop()
	if err != nil {
		t.Fatal(err)
	}
	for _, kind := range []string{"revoked key", "scope that is missing"} {
		if tally[kind]["permission_denied"] == 0 {
			t.Errorf("%s: %v", kind, tally[kind])
		}
	}
}

func TestTheProcessNeedsKeys(t *testing.T) {
	if err := Command(t.Context(), nil, strings.NewReader("no keys"), io.Discard); err == nil {
		t.Error("it went on")
	}
}

// TestNothingIsAttackedUntilAimed: and nothing after there is no target any more.
func TestNothingIsAttackedUntilAimed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, acts := newCampaign(Keys{}, ""), make(chan string)
		ctx, end := context.WithCancel(t.Context())
		defer end()
		go c.run(ctx, []kind{{name: "tells", workers: 1, pause: time.Second, act: func(_ context.Context, _ *worker, at Listener) string {
			acts <- at.URL
			return "told"
		}}})
		quiet := func(when string) {
			t.Helper()
			time.Sleep(time.Hour) // of the bubble's time
			select {
			case at := <-acts:
				t.Errorf("%s: %s was attacked", when, at)
			default:
			}
		}
		quiet("before it was aimed")
		c.aim([]Listener{{URL: "there"}})
		if at := <-acts; at != "there" {
			t.Errorf("%s was attacked", at)
		}
		c.aim(nil)
		quiet("when there was no target any more")
		end()
		synctest.Wait()
		if c.tally["tells"]["told"] != 1 {
			t.Errorf("%v", c.tally)
		}
	})
}

func TestSilentKindsAreTold(t *testing.T) {
	all := make(Tally)
	for _, k := range kinds() {
		all[k.name] = map[string]int{"ok": 1}
	}
	if silent := all.Silent(); len(silent) > 0 {
		t.Errorf("%v", silent)
	}
	delete(all, "guessed keys")
	if silent := all.Silent(); len(silent) != 1 || silent[0] != "guessed keys" {
		t.Errorf("%v", silent)
	}
}

// TestASlowSenderIsEndedByTheServer: an answer or the connection's end is noticed.
func TestASlowSenderIsEndedByTheServer(t *testing.T) {
	v := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "too slow", http.StatusRequestTimeout)
	}))
	defer v.Close()
	w := &worker{campaign: newCampaign(Keys{Write: "k"}, "")}
	if got := sendSlowly(t.Context(), w, Listener{URL: v.URL}); got != "ended by the server" {
		t.Error(got)
	}
	v.Close()
	if got := sendSlowly(t.Context(), w, Listener{URL: v.URL}); got != "no connection" {
		t.Error(got)
	}
}

func TestATallyIsJSON(t *testing.T) {
	want := Tally{"a": {"ok": 2, "401": 1}}
	text, err := json.Marshal(want)
	if err != nil {
		t.Fatal(err)
	}
	var got Tally
	if err := json.Unmarshal(text, &got); err != nil || got.Acts() != 3 {
		t.Errorf("%v, %v", got, err)
	}
}
