package slack

import (
	"testing"
	"time"

	"github.com/fireonce/fireonce/internal/connector/lookup"
)

// TestWatermarkBytes: stored watermarks keep their form.
func TestWatermarkBytes(t *testing.T) {
	const want = `{"v":1,"team":"T1","user":"U1","bot":"B1","site":"https://w.slack.example/","channel":"C1",` +
		`"at":"2026-11-21T08:00:00Z","local":"2026-11-21T08:00:00Z"}`
	at := time.Date(2026, 11, 21, 8, 0, 0, 0, time.UTC)
	m := watermark{
		Version: watermarkVersion, tokenOwner: tokenOwner{Team: "T1", User: "U1", Bot: "B1", Site: "https://w.slack.example/"},
		Channel: "C1", Clocks: lookup.Clocks{At: at, Local: at},
	}
	got, err := lookup.EncodeWatermark(m)
	if got != want || err != nil {
		t.Errorf("%s, %v", got, err)
	}
	if back, err := parseWatermark(got); err != nil || back != m {
		t.Errorf("%+v, %v", back, err)
	}
}
