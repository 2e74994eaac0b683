package logthrottle_test

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fireonce/fireonce/internal/logthrottle"
)

func TestThrottle(t *testing.T) {
	var throttle logthrottle.Throttle
	now := time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)
	lines := 0
	for range 300 { // five minutes, a call each second
		if throttle.Allow(now) {
			lines++
		}
		now = now.Add(time.Second)
	}
	if lines != 5 {
		t.Errorf("%d lines in five minutes", lines)
	}
}

func TestFailures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		f := logthrottle.Failures{Log: slog.New(slog.NewTextHandler(&log, nil)), Fails: "it fails", Works: "it works"}
		count := func(text string) int { return strings.Count(log.String(), text) }
		f.Worked("read") // a success without a failure before is no news
		for range 150 {
			f.Failed("read", errors.New("gone"))
			f.Failed("write", errors.New("gone"))
			time.Sleep(time.Second)
		}
		if n := count("it fails"); n != 3 {
			t.Errorf("%d lines about a failure of 150 s, want one a minute", n)
		}
		f.Worked("read")
		if count("it works") != 0 {
			t.Error("the end was logged while an operation fails")
		}
		f.Worked("write")
		if count("it works") != 1 || count("failed_for=2m30s") != 1 {
			t.Errorf("the end was not logged once, with the length:\n%s", log.String())
		}
		f.Failed("read", errors.New("gone"))
		if n := count("it fails"); n != 4 {
			t.Errorf("a second failure within the minute has %d lines in all, want 4", n)
		}
	})
}
