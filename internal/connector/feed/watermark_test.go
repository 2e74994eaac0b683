package feed

import (
	"testing"

	"github.com/fireonce/fireonce/internal/connector/lookup"
)

// TestWatermarkBytes: stored watermarks keep their form.
func TestWatermarkBytes(t *testing.T) {
	const want = `{"v":1,"base":"https://feed.example/","account":"a","at":"2026-11-21T08:00:00Z","local":"2026-11-21T08:00:00Z","seen":["p1"]}`
	m := watermarkOf("https://feed.example/", listing{account: "a", now: epoch, posts: []post{{id: "p1", created: epoch}}}, epoch)
	if got, err := lookup.EncodeWatermark(m); got != want || err != nil {
		t.Errorf("%s, %v", got, err)
	}
}
