package slack

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/fireonce/fireonce/internal/connector/kit"
	"github.com/fireonce/fireonce/internal/connector/lookup"
)

// watermark has the account that writes, the conversation, and the time at which an
// intent was about to be written. The effect comes after it.
type watermark struct {
	Version int `json:"v"`
	tokenOwner
	Channel string `json:"channel"`
	lookup.Clocks
}

// tokenOwner is the account that a token belongs to. Bot is empty for a person's token.
type tokenOwner struct {
	Team string `json:"team"`
	User string `json:"user"`
	Bot  string `json:"bot,omitempty"`
	Site string `json:"site,omitempty"` // the workspace's URL
}

const watermarkVersion = 1

func parseWatermark(text string) (watermark, error) {
	return lookup.ParseWatermark(text, func(m watermark) bool {
		return m.Version == watermarkVersion && m.Team != "" && m.User != "" && isChannel(m.Channel) && m.Known()
	})
}

// identity names the account, stable over renames.
func (w tokenOwner) identity() string { return "slack:" + w.Team + "/" + w.User }

// link is where a person sees a message; empty if the workspace's URL is not known.
func link(site, channel, ts, thread string) string {
	if site == "" {
		return ""
	}
	out := strings.TrimSuffix(site, "/") + "/archives/" + channel + "/p" + strings.ReplaceAll(ts, ".", "")
	if thread != "" && thread != ts {
		out += "?thread_ts=" + thread + "&cid=" + channel
	}
	return kit.WebURL(out)
}

// stampOf returns the time stamp of a message that is made then.
func stampOf(t time.Time) string {
	us := max(0, t.UnixMicro())
	return fmt.Sprintf("%d.%06d", us/1_000_000, us%1_000_000)
}

// timeOf reads a time stamp.
func timeOf(ts string) (time.Time, bool) {
	if !stamp.MatchString(ts) {
		return time.Time{}, false
	}
	sec, frac, _ := strings.Cut(ts, ".")
	s, err := strconv.ParseInt(sec, 10, 64)
	us, err2 := strconv.ParseInt(frac, 10, 64)
	const most = 1 << 40 // of seconds
	return time.Unix(s, us*1000).UTC(), err == nil && err2 == nil && s < most
}

// maxKnown bounds what is remembered of tokens, and of people.
const maxKnown = 10_000
