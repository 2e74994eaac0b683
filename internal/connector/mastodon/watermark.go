package mastodon

import (
	"time"

	"github.com/fireonce/fireonce/internal/connector/lookup"
)

type watermark = lookup.Watermark

var watermarks = lookup.Watermarks{
	Valid:    func(m watermark) bool { return m.Base != "" && validID(m.ID) && m.Account != "" },
	Identity: func(m watermark) string { return m.Account },
}

// watermarkOf takes a watermark from the newest page.
func watermarkOf(base string, p person, l listing, local time.Time) watermark {
	return watermark{
		Version: lookup.WatermarkVersion, Base: base, ID: p.id, Account: p.url,
		Clocks: lookup.Clocks{At: l.now, Local: local}, Seen: lookup.Seen(rules, l.statuses, l.now),
	}
}
