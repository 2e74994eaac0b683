package receiver

import (
	"context"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

func open(t *testing.T) string {
	t.Helper()
	s := httptest.NewServer(newServer())
	t.Cleanup(s.Close)
	return s.URL
}

// TestCounts: what is lost, doubled or strange is seen, and runs are apart.
func TestCounts(t *testing.T) {
	url := open(t)
	whole, broken := At(url, "whole"), At(url, "broken")
	post := func(r Run, body []byte) {
		t.Helper()
		if err := r.Poster(1).Post(t.Context(), body); err != nil {
			t.Fatal(err)
		}
	}
	since := time.Now().Add(-time.Second)
	for n := range 3000 {
		if n < 3 || n == 2999 {
			post(whole, Payload(n, since))
		}
	}
	post(whole, Payload(-1, since))
	for _, n := range []int{0, 2, 2, 2} {
		post(broken, Payload(n, since))
	}
	post(broken, []byte("{}"))
	if n, err := whole.Arrived(t.Context()); n != 4 || err != nil {
		t.Errorf("%d arrived, %v", n, err)
	}
	got, err := whole.End(t.Context())
	if err != nil || got.Check(4) != nil {
		t.Errorf("%+v, %v", got, err)
	}
	if got.P50 < time.Second || got.P99 < got.P50 || got.Max > time.Minute {
		t.Errorf("lags of %+v", got)
	}
	if got.Check(5) == nil {
		t.Error("a lost job was not noticed")
	}
	if got, err = broken.End(t.Context()); err != nil || got.Jobs != 2 || got.Doubled != 1 || got.Strange != 1 || got.Check(2) == nil {
		t.Errorf("%+v, %v", got, err)
	}
	if got, err = broken.End(t.Context()); err != nil || got != (Tally{}) {
		t.Errorf("it was not forgotten: %+v, %v", got, err)
	}
}

func TestManyRepeatsAreNoNewJob(t *testing.T) {
	r := new(run)
	for range 1000 {
		r.note(Payload(7, time.Now()), time.Now())
	}
	if got := r.tally(); got.Jobs != 1 || got.Doubled != 1 {
		t.Errorf("%+v", got)
	}
}

func TestAwaitEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	r := At(open(t), "idle")
	done := make(chan error)
	go func() { done <- r.Await(ctx, 1) }()
	cancel()
	if err := <-done; err == nil {
		t.Error("a job that never came was awaited")
	}
}

// TestNumber: also as a database's JSON writes it.
func TestNumber(t *testing.T) {
	for _, body := range []string{string(Payload(12, time.UnixMicro(34))), `{"pad": "x", "since": 34, "n": 12}`} {
		n, ok := number([]byte(body), `"n":`)
		since, timed := number([]byte(body), `"since":`)
		if n != 12 || since != 34 || !ok || !timed {
			t.Errorf("%s: %d, %d", body, n, since)
		}
	}
	for _, body := range []string{"", `{"n":`, `{"n":x}`, strings.Repeat("n", 10)} {
		if n, ok := number([]byte(body), `"n":`); ok {
			t.Errorf("%s: %d", body, n)
		}
	}
	if n := len(Payload(1, time.Now())); n < 590 || n > 610 {
		t.Errorf("a payload has %d bytes", n)
	}
}
