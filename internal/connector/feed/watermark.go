package feed

import (
	"time"

	"github.com/fireonce/fireonce/internal/connector/lookup"
)

// watermark is what is known of the account before an intent is written. The effect
// comes after it.
type watermark struct {
	Version int `json:"v"`
	// Base and Account say whose posts these are.
	Base    string `json:"base"`
	Account string `json:"account"`
	lookup.Clocks
	// Seen are posts that were there already (lookup.Seen).
	Seen []string `json:"seen"`
}

const watermarkVersion = 1

func parseWatermark(text string) (watermark, error) {
	return lookup.ParseWatermark(text, func(m watermark) bool {
		return m.Version == watermarkVersion && m.Base != "" && m.Account != "" && m.Known()
	})
}

// watermarkOf takes a watermark from the newest page.
func watermarkOf(base string, l listing, local time.Time) watermark {
	return watermark{
		Version: watermarkVersion, Base: base, Account: l.account,
		Clocks: lookup.Clocks{At: l.now, Local: local}, Seen: lookup.Seen(rules, l.posts, l.now),
	}
}
