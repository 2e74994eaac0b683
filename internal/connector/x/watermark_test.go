package x

import (
	"testing"
	"time"

	"github.com/fireonce/fireonce/internal/connector/lookup"
)

// TestWatermarkBytes: stored watermarks keep their form.
func TestWatermarkBytes(t *testing.T) {
	const want = `{"v":1,"account":"17","at":"2026-11-21T08:00:00Z","local":"2026-11-21T08:00:00Z"}`
	at := time.Date(2026, 11, 21, 8, 0, 0, 0, time.UTC)
	got, err := lookup.EncodeWatermark(watermark{Version: lookup.WatermarkVersion, Account: "17", Clocks: lookup.Clocks{At: at, Local: at}})
	if got != want || err != nil {
		t.Errorf("%s, %v", got, err)
	}
}
