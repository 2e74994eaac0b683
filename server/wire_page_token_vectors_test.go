package server

import (
	"encoding/hex"
	"testing"

	"github.com/fireonce/fireonce/internal/job"
)

// TestTokenVectors holds cursors, page tokens and etags: clients keep them across an upgrade.
func TestTokenVectors(t *testing.T) {
	s := tokens{store: job.ID{1, 2, 3}}
	owner := s.owner("default", []byte("query"))
	if got := hex.EncodeToString(owner[:]); got != "88f15d5ab99ae025" {
		t.Errorf("owner %s", got)
	}
	if got := s.cursor("default", 3, 1<<40); got != "AkwVf_d7j0t76wAAAAAAAAADAAAAAAAAAAAAAAAAAAAAAAAAAQAAAAAABexpTw" {
		t.Errorf("cursor %s", got)
	}
	if p, err := s.parseCursor("default", s.cursor("default", 3, 1<<40)); err != nil || p.incarnation != 3 || p.at != 1<<40 {
		t.Errorf("read back %+v, %v", p, err)
	}
	if got := etagOf(job.ID{1, 2, 3}, 7); got != "rZQb_IDTpJyWKEVH" {
		t.Errorf("etag %s", got)
	}
	const kinds = "LJPAOCBKSTUFVIE"
	got := []byte{
		byte(logCursor), byte(jobCursor), byte(jobPages), byte(tryPages), byte(lookPages), byte(connPages), byte(bulkPages), byte(keyPages),
		byte(sealPages), byte(schedulePages), byte(bulkSchedulePages), byte(firingPages), byte(backfillPages), byte(itemPages), byte(endedItemPages),
	}
	if string(got) != kinds {
		t.Errorf("kinds %s, want %s", got, kinds)
	}
}

// TestReceiverVectors holds the names of receivers, of which digests of own effect keys are
// made.
func TestReceiverVectors(t *testing.T) {
	for _, v := range []struct{ connector, holdKey, want string }{
		{"mastodon", "account", "connector mastodon"},
		{"webhook", "https://a.example", "host a.example"},
		{"webhook", "http://a.example.:80", "host a.example"},
		{"webhook", "https://a.example:8443", "host a.example:8443"},
		{"webhook", "no URL", "no URL"},
	} {
		if got := receiverOf(v.connector, v.holdKey); got != v.want {
			t.Errorf("%s %q: %q, want %q", v.connector, v.holdKey, got, v.want)
		}
	}
}
