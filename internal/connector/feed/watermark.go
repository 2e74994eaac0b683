package feed

import (
	"time"

	"github.com/fireonce/fireonce/internal/connector/lookup"
)

type watermark = lookup.Watermark

var watermarks = lookup.Watermarks{
	Valid:    func(m watermark) bool { return m.Base != "" && m.Account != "" },
	Identity: func(m watermark) string { return m.Base + " " + m.Account },
}

// watermarkOf takes a watermark from the newest page.
func watermarkOf(base string, l listing, local time.Time) watermark {
	return watermark{
		Version: lookup.WatermarkVersion, Base: base, Account: l.account,
		Clocks: lookup.Clocks{At: l.now, Local: local}, Seen: lookup.Seen(rules, l.posts, l.now),
	}
}
