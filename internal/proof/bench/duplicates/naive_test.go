package main

import (
	"context"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/fireonce/fireonce/internal/proof/bench/duplicates/internal/tally"
)

// TestNaiveForgets: no worker takes over the jobs that a killed worker had in hand, and each
// job is handed out once.
func TestNaiveForgets(t *testing.T) {
	n := newNaive(&environment{subjects: []string{"a", "b", "c", "d"}}, "opaque").(*naive)
	next := func(life string) string {
		w := httptest.NewRecorder()
		n.give(w, httptest.NewRequest(http.MethodPost, "/next?life="+life, nil))
		return strings.TrimSpace(w.Body.String())
	}
	done := func(subject, ok string) {
		form := url.Values{"subject": {subject}, "ok": {ok}}
		n.take(httptest.NewRecorder(), httptest.NewRequest(http.MethodPost, "/done?"+form.Encode(), nil))
	}
	atRest := func(want int) {
		t.Helper()
		if got, err := n.atRest(context.Background()); err != nil || got != want {
			t.Errorf("%d at rest, %v; want %d", got, err, want)
		}
	}
	n.command()
	if a, b := next("1"), next("1"); a != "a" || b != "b" {
		t.Fatalf("got %q and %q", a, b)
	}
	atRest(0)
	done("a", "true")
	atRest(1)
	n.command() // the first is dead
	atRest(2)
	if got := next("1"); got == "c" {
		t.Error("a dead worker got a job")
	}
	if got := next("2"); got != "c" {
		t.Errorf("got %q", got)
	}
	done("c", "false")
	atRest(3)
	verdicts, err := n.verdicts(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	for subject, want := range map[string]tally.Verdict{
		"a": tally.Succeeded, "b": tally.Forgotten, "c": tally.Failed, "d": tally.Unfinished,
	} {
		if verdicts[subject] != want {
			t.Errorf("%s: %v, want %v", subject, verdicts[subject], want)
		}
	}
}
