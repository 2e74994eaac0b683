package mastodon

import (
	"testing"
	"time"

	"github.com/fireonce/fireonce/internal/connector/lookup"
)

// TestWatermarkBytes: stored watermarks keep their form.
func TestWatermarkBytes(t *testing.T) {
	const want = `{"v":1,"base":"https://m.example/","id":"1","account":"https://m.example/@a","at":"2026-11-21T08:00:00Z",` +
		`"local":"2026-11-21T08:00:00Z","seen":["p1"]}`
	at := time.Date(2026, 11, 21, 8, 0, 0, 0, time.UTC)
	m := watermarkOf("https://m.example/", person{id: "1", url: "https://m.example/@a"}, listing{now: at, statuses: []status{{id: "p1", created: at}}}, at)
	if got, err := lookup.EncodeWatermark(m); got != want || err != nil {
		t.Errorf("%s, %v", got, err)
	}
}
