package platform_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/fireonce/fireonce/internal/proof/chaos/platform"
)

// world is a platform and the path of its log.
type world struct {
	*testing.T
	*platform.Platform
	log string
}

func start(t *testing.T, opts platform.Options) *world {
	t.Helper()
	opts.Log = filepath.Join(t.TempDir(), "platform.log")
	p, err := platform.Start(opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.Close() })
	return &world{T: t, Platform: p, log: opts.Log}
}

// always is a fault of every request and look.
func always(f platform.Fault) platform.Options {
	return platform.Options{Faults: platform.Faults{Rates: platform.Rates{f: 1}}}
}

// records reads the log as it is now.
func (w *world) records() (out []platform.Record) {
	w.Helper()
	for r, err := range platform.ReadLog(w.log) {
		if err != nil {
			w.Fatal(err)
		}
		out = append(out, r)
	}
	return out
}

// effects counts the effects of a subject in the log.
func (w *world) effects(subject string) (n int) {
	w.Helper()
	for _, r := range w.records() {
		if r.Type == platform.TypeEffect && r.Subject == subject {
			n++
		}
	}
	return n
}

// settled waits until nothing is to come any more.
func (w *world) settled() platform.Totals {
	w.Helper()
	t, err := platform.Control{URL: w.URL()}.Settled(w.Context())
	if err != nil {
		w.Fatal(err)
	}
	return t
}

// send sends a request with a line of its own, so that nothing is sent twice.
func send(ctx context.Context, method, url, body string, header map[string]string) (status int, answer string, err error) {
	r, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
	if err != nil {
		return 0, "", err
	}
	for name, value := range header {
		r.Header.Set(name, value)
	}
	resp, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(r)
	if err != nil {
		return 0, "", err
	}
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(resp.Body)
	return resp.StatusCode, string(text), err
}

// face is one way to ask for an effect.
type face struct {
	name string
	url  func(*world) string
	body func(subject string) string
	ok   int
}

var faces = []face{
	{platform.FaceKeyed, func(w *world) string { return w.KeyedURL() }, hookBody, 200},
	{platform.FaceUnlocked, func(w *world) string { return w.UnlockedURL() }, hookBody, 200},
	{platform.FaceOpaque, func(w *world) string { return w.OpaqueURL() }, hookBody, 200},
	{platform.FaceFeed, func(w *world) string { return w.FeedURL("a") + "/posts" }, postBody, 201},
}

func hookBody(subject string) string { return fmt.Sprintf(`{"subject":%q}`, subject) }
func postBody(subject string) string { return fmt.Sprintf(`{"text":%q}`, subject) }

func (w *world) ask(f face, subject string) (status int, answer string, err error) {
	return send(w.Context(), http.MethodPost, f.url(w), f.body(subject), nil)
}

// TestFaults: what a client sees of each fault, and what happened.
func TestFaults(t *testing.T) {
	for fault, want := range map[platform.Fault]struct {
		status  int // 0: an error, before the answer or in it
		effects int
	}{
		platform.None: {-1, 1}, platform.Delay: {-1, 1}, platform.Slow: {-1, 1}, platform.Trickle: {-1, 1},
		platform.Drop: {0, 1}, platform.ResetMid: {0, 1}, platform.Truncate: {0, 1}, platform.Late: {0, 1},
		platform.ResetBefore: {0, 0}, platform.Unavailable: {503, 0}, platform.RateLimit: {429, 0}, platform.Refuse: {422, 0},
	} {
		for _, f := range faces {
			t.Run(string(fault)+"/"+f.name, func(t *testing.T) {
				opts := platform.Options{Faults: platform.Faults{
					Trickle: platform.Duration(10 * time.Millisecond), Delay: platform.Duration(time.Millisecond),
					LateBy: platform.Duration(time.Millisecond), Work: platform.Duration(time.Millisecond),
				}}
				if fault != platform.None {
					opts.Faults.Rates = platform.Rates{fault: 1}
				}
				w := start(t, opts)
				status, answer, err := w.ask(f, "s")
				wanted := want.status
				if wanted < 0 {
					wanted = f.ok
				}
				if wanted == 0 && err == nil || wanted != 0 && (err != nil || status != wanted) {
					t.Errorf("%d %q %v", status, answer, err)
				}
				totals := w.settled()
				if got := w.effects("s"); got != want.effects || totals.Effects[f.name] != want.effects || totals.Requests[f.name] != 1 {
					t.Errorf("%d effects, %+v", got, totals)
				}
				if fault != platform.None && totals.Faults[fault] != 1 {
					t.Errorf("not counted: %+v", totals)
				}
				checkAnswer(t, w, answer, wanted == f.ok)
			})
		}
	}
}

// checkAnswer: a whole answer names the effect that is in the log.
func checkAnswer(t *testing.T, w *world, answer string, named bool) {
	t.Helper()
	if !named {
		return
	}
	var in struct{ ID string }
	if err := json.Unmarshal([]byte(answer), &in); err != nil || in.ID == "" {
		t.Fatalf("%q: %v", answer, err)
	}
	if all := w.records(); all[len(all)-1].ID != in.ID || all[0].Type != platform.TypeRequest || all[0].N != all[1].N {
		t.Errorf("%q is not in %+v", in.ID, all)
	}
}

// TestErrorAfter: a 5xx is the answer to an effect that is there.
func TestErrorAfter(t *testing.T) {
	w := start(t, always(platform.ErrorAfter))
	seen := make(map[int]bool)
	for i := range 40 {
		subject := fmt.Sprint("s", i)
		status, _, err := w.ask(faces[i%len(faces)], subject)
		if err != nil || status < 500 || w.effects(subject) != 1 {
			t.Fatalf("%d %v, %d effects", status, err, w.effects(subject))
		}
		seen[status] = true
	}
	if got := slices.Sorted(maps.Keys(seen)); !slices.Equal(got, []int{500, 502, 503, 504}) {
		t.Errorf("%v", got)
	}
}

// TestSilence: a client that gets no answer has its effect nevertheless.
func TestSilence(t *testing.T) {
	w := start(t, always(platform.Silence))
	for _, f := range faces {
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() {
			_, _, err := send(ctx, http.MethodPost, f.url(w), f.body(f.name), nil)
			done <- err
		}()
		for w.effects(f.name) == 0 {
			if len(done) > 0 {
				t.Fatal("an end without an effect")
			}
		}
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v", f.name, err)
		}
	}
}

// TestTrickle: an answer comes bit by bit.
func TestTrickle(t *testing.T) {
	opts := always(platform.Trickle)
	opts.Faults.Trickle = platform.Duration(200 * time.Millisecond)
	w := start(t, opts)
	conn, err := net.Dial("tcp", strings.TrimPrefix(w.URL(), "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	fmt.Fprintf(conn, "POST /hook/opaque/s HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n")
	reads, text := 0, ""
	for buf := make([]byte, 1<<16); ; {
		n, err := conn.Read(buf)
		text += string(buf[:n])
		if err != nil {
			break
		}
		reads++
	}
	if reads < 2 || !strings.HasPrefix(text, "HTTP/1.1 200 OK\r\n") || !strings.HasSuffix(text, "}\n") {
		t.Errorf("%d reads: %q", reads, text)
	}
	if w.effects("s") != 1 {
		t.Error("no effect of the path's subject")
	}
}

// TestActsWithoutItsClient: a delayed effect comes also if its client has given
// up, and a late one after its connection's end.
func TestActsWithoutItsClient(t *testing.T) {
	for fault, seed := range map[platform.Fault]uint64{platform.Delay: 1, platform.Late: 1} {
		opts := always(fault)
		opts.Seed = seed
		opts.Faults.Delay, opts.Faults.LateBy = platform.Duration(300*time.Millisecond), platform.Duration(300*time.Millisecond)
		w := start(t, opts)
		for _, f := range faces {
			ctx, cancel := context.WithCancel(t.Context())
			done := make(chan struct{})
			go func() {
				defer close(done)
				_, _, _ = send(ctx, http.MethodPost, f.url(w), f.body(f.name), nil)
			}()
			for w.Totals().Requests[f.name] == 0 {
				if w.effects(f.name) != 0 {
					t.Fatal("an effect without a request")
				}
			}
			cancel()
			<-done
		}
		if got := w.settled(); got.Pending != 0 {
			t.Errorf("%s: %+v", fault, got)
		}
		if err := w.Close(); err != nil { // the log is whole: no client waited for an answer
			t.Fatal(err)
		}
		for _, f := range faces {
			if w.effects(f.name) != 1 {
				t.Errorf("%s/%s: %d effects", fault, f.name, w.effects(f.name))
			}
		}
	}
}

// TestSettledIsInTheLog: once nothing is pending, all effects can be read, also
// those without an answer.
func TestSettledIsInTheLog(t *testing.T) {
	opts := always(platform.Late)
	opts.Faults.LateBy = platform.Duration(time.Millisecond)
	w := start(t, opts)
	for i := range 10 {
		subject := fmt.Sprint("s", i)
		if _, _, err := w.ask(faces[1], subject); err == nil {
			t.Fatal("an answer")
		}
		for w.Totals().Pending != 0 {
			runtime.Gosched()
		}
		if n := w.effects(subject); n != 1 {
			t.Fatalf("%s: %d effects", subject, n)
		}
	}
}

// TestLateIsNotAtOnce: what is late is pending, and never acts when the platform
// ends before.
func TestLateIsNotAtOnce(t *testing.T) {
	opts := always(platform.Late)
	opts.Faults.LateBy = platform.Duration(time.Hour)
	w := start(t, opts)
	if _, _, err := w.ask(faces[1], "s"); err == nil {
		t.Error("an answer")
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	if got, err := (platform.Control{URL: w.URL()}).Settled(ctx); err == nil || w.Totals().Pending != 1 {
		t.Errorf("%+v %v", got, err)
	}
	if err := w.Close(); err != nil || w.effects("s") != 0 {
		t.Errorf("%v, %d effects", err, w.effects("s"))
	}
}

// TestKeys: a repeat is answered as the first time, whichever header has the key,
// and whatever became of the first answer.
func TestKeys(t *testing.T) {
	w := start(t, platform.Options{})
	keyed := func(key string) (string, error) {
		_, answer, err := send(t.Context(), http.MethodPost, w.KeyedURL(), hookBody("s"), map[string]string{"Webhook-Id": key})
		return answer, err
	}
	if err := w.SetFaults(platform.Faults{Rates: platform.Rates{platform.Drop: 1}}); err != nil {
		t.Fatal(err)
	}
	if _, err := keyed("k"); err == nil {
		t.Fatal("an answer")
	}
	if err := w.SetFaults(platform.Faults{}); err != nil {
		t.Fatal(err)
	}
	first, err := keyed("k")
	_, second, err2 := send(t.Context(), http.MethodPost, w.KeyedURL(), hookBody("s"), map[string]string{"Idempotency-Key": "k"})
	if err != nil || err2 != nil || first != second || w.effects("s") != 1 || w.Totals().Repeats != 2 {
		t.Errorf("%q %q %v %v %+v", first, second, err, err2, w.Totals())
	}
	if other, err := keyed("k.2"); err != nil || other == first || w.effects("s") != 2 {
		t.Errorf("another key: %q %v", other, err)
	}
	if got := w.records(); got[0].Key != "k" || got[1].Key != "k" || got[0].Number != 1 || got[2].Number != 2 {
		t.Errorf("%+v", got)
	}
	for range 2 { // no key, no memory
		if _, _, err := w.ask(faces[0], "keyless"); err != nil {
			t.Fatal(err)
		}
	}
	for range 2 {
		if _, _, err := send(t.Context(), http.MethodPost, w.OpaqueURL(), hookBody("opaque"), map[string]string{"Webhook-Id": "k"}); err != nil {
			t.Fatal(err)
		}
	}
	if w.effects("keyless") != 2 || w.effects("opaque") != 2 {
		t.Errorf("%d, %d", w.effects("keyless"), w.effects("opaque"))
	}
}

// TestKeysAtOnce: of many concurrent requests with one key, one acts.
func TestKeysAtOnce(t *testing.T) {
	w := start(t, platform.Options{})
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() {
			if _, _, err := send(t.Context(), http.MethodPost, w.KeyedURL(), hookBody("s"), map[string]string{"Webhook-Id": "k"}); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if got := w.Totals(); w.effects("s") != 1 || got.Repeats != 19 {
		t.Errorf("%d effects, %+v", w.effects("s"), got)
	}
}

// TestSlowWithoutALock: a receiver that works on a request acts again on another one with the
// same key, and knows the key once it has acted. One with a lock acts once.
func TestSlowWithoutALock(t *testing.T) {
	for _, tt := range []struct {
		face string
		url  func(*world) string
		acts int
	}{
		{platform.FaceUnlocked, func(w *world) string { return w.UnlockedURL() }, 2},
		{platform.FaceKeyed, func(w *world) string { return w.KeyedURL() }, 1},
	} {
		t.Run(tt.face, func(t *testing.T) {
			t.Parallel()
			w := start(t, platform.Options{})
			for work := 500 * time.Millisecond; !w.overlap(tt.url(w), work, tt.acts); work *= 2 {
				t.Logf("the first request did not work long enough: %v", work)
			}
		})
	}
}

// overlap sends a request that is worked on for a while, and another with its key meanwhile.
// It reports whether the first was still worked on when the second had its answer.
func (w *world) overlap(url string, work time.Duration, acts int) bool {
	w.Helper()
	subject := work.String()
	ask := func() {
		if _, _, err := send(w.Context(), http.MethodPost, url, hookBody(subject), map[string]string{"Webhook-Id": subject}); err != nil {
			w.Error(err)
		}
	}
	if err := w.SetFaults(platform.Faults{Rates: platform.Rates{platform.Slow: 1}, Work: platform.Duration(work)}); err != nil {
		w.Fatal(err)
	}
	var first sync.WaitGroup
	first.Go(ask)
	for w.Totals().Pending == 0 {
		runtime.Gosched()
	}
	if err := w.SetFaults(platform.Faults{}); err != nil {
		w.Fatal(err)
	}
	ask()
	worked := w.Totals().Pending == 1
	first.Wait()
	if ask(); worked && w.effects(subject) != acts {
		w.Errorf("%d effects, want %d", w.effects(subject), acts)
	}
	return worked
}

// TestForgottenKeys: the memory is bounded, and says so.
func TestForgottenKeys(t *testing.T) {
	w := start(t, platform.Options{Keys: 2})
	for _, key := range []string{"a", "b", "a", "c", "b", "a"} { // c takes the place of a, the last a that of b
		if _, _, err := send(t.Context(), http.MethodPost, w.KeyedURL()+key, "", map[string]string{"Webhook-Id": key}); err != nil {
			t.Fatal(err)
		}
	}
	if w.effects("a") != 2 || w.effects("b") != 1 || w.effects("c") != 1 || w.Totals().Forgotten != 2 {
		t.Errorf("%+v", w.records())
	}
}

// TestTorn: a request that did not come whole has no effect.
func TestTorn(t *testing.T) {
	w := start(t, platform.Options{})
	for _, f := range faces {
		conn, err := net.Dial("tcp", strings.TrimPrefix(w.URL(), "http://"))
		if err != nil {
			t.Fatal(err)
		}
		path := strings.TrimPrefix(f.url(w), w.URL())
		fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n%s", path, f.body("s"))
		conn.Close()
	}
	for w.Totals().Torn < len(faces) {
		if w.effects("s") != 0 {
			t.Fatal("an effect")
		}
	}
	if len(w.records()) != 0 {
		t.Errorf("%+v", w.records())
	}
	if status, _, err := send(t.Context(), http.MethodPost, w.FeedURL("a")+"/posts", `{"text":""}`, nil); err != nil || status != 400 {
		t.Errorf("%d %v", status, err)
	}
}
