package mastodon

import (
	"time"

	"github.com/fireonce/fireonce/internal/connector/lookup"
)

// watermark is what is known of the account before an intent is written. The effect
// comes after it.
type watermark struct {
	Version int `json:"v"`
	// Base and ID name the account whose posts these are, Account how people know it.
	Base    string `json:"base"`
	ID      string `json:"id"`
	Account string `json:"account"`
	lookup.Clocks
	// Seen are posts that were there already (lookup.Seen).
	Seen []string `json:"seen"`
}

const watermarkVersion = 1

func parseWatermark(text string) (watermark, error) {
	return lookup.ParseWatermark(text, func(m watermark) bool {
		return m.Version == watermarkVersion && m.Base != "" && validID(m.ID) && m.Account != "" && m.Known()
	})
}

// watermarkOf takes a watermark from the newest page.
func watermarkOf(base string, p person, l listing, local time.Time) watermark {
	return watermark{
		Version: watermarkVersion, Base: base, ID: p.id, Account: p.url,
		Clocks: lookup.Clocks{At: l.now, Local: local}, Seen: lookup.Seen(rules, l.statuses, l.now),
	}
}
