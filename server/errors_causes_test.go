package server

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/fireonce/fireonce/store"
)

func TestCausesOfAnUnavailableStoreAreThrottled(t *testing.T) {
	var c causes
	now := time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)
	gone := fmt.Errorf("read the job: %w", store.ErrUnavailable)
	lines := 0
	for range 300 { // five minutes, a call each second
		if c.logs(gone, now) {
			lines++
		}
		now = now.Add(time.Second)
	}
	if lines != 5 {
		t.Errorf("%d lines in five minutes", lines)
	}
	for range 3 {
		if !c.logs(errors.New("a bug"), now) {
			t.Error("a bug was not logged")
		}
	}
}
