package mastodon

import (
	"encoding/json"
	"errors"
	"time"
)

// mark is a watermark: what is known of the account before an intent is written.
// The effect comes after it.
type mark struct {
	Version int `json:"v"`
	// Base and ID say whose posts these are, Account who that is.
	Base    string `json:"base"`
	ID      string `json:"id"`
	Account string `json:"account"`
	// At is the server's clock, Local the clock of this process, at the same time.
	At    time.Time `json:"at"`
	Local time.Time `json:"local"`
	// Seen are posts that were there already: the newest, and those within slack of At.
	// Others may have been there too, hidden by the read lag.
	Seen []string `json:"seen"`
}

const markVersion = 1

var errBadMark = errors.New("the attempt's watermark is not readable")

func (m mark) encode() (string, error) {
	text, err := json.Marshal(m)
	return string(text), err
}

func parseMark(text string) (mark, error) {
	var m mark
	if err := json.Unmarshal([]byte(text), &m); err != nil || m.Version != markVersion ||
		m.Base == "" || !validID(m.ID) || m.Account == "" || m.At.IsZero() || m.Local.IsZero() {
		return mark{}, errBadMark
	}
	return m, nil
}

// markOf takes a watermark from the newest page.
func markOf(base string, p person, l listing, local time.Time) mark {
	m := mark{Version: markVersion, Base: base, ID: p.id, Account: p.url, At: l.now, Local: local}
	for i, s := range l.statuses {
		if i == 0 || !s.created.Before(l.now.Add(-slack)) {
			m.Seen = append(m.Seen, s.id)
		}
	}
	return m
}
