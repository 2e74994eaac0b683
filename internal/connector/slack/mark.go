package slack

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/fireonce/fireonce/internal/connector/kit"
	"github.com/fireonce/fireonce/internal/connector/transport"
)

// mark is a watermark: who writes, into which conversation, and when an intent was
// about to be written, by Slack's clock. The effect comes after it.
type mark struct {
	Version int `json:"v"`
	who
	Channel string `json:"channel"`
	// At is Slack's clock, in whole seconds; Local the clock of this process at the
	// same time.
	At    time.Time `json:"at"`
	Local time.Time `json:"local"`
}

// who is whose token it is. Bot is empty for a person's token.
type who struct {
	Team string `json:"team"`
	User string `json:"user"`
	Bot  string `json:"bot,omitempty"`
	Site string `json:"site,omitempty"` // the workspace's URL
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
		m.Team == "" || m.User == "" || !isChannel(m.Channel) || m.At.IsZero() || m.Local.IsZero() {
		return mark{}, errBadMark
	}
	return m, nil
}

// identity names the account, stable over renames.
func (w who) identity() string { return "slack:" + w.Team + "/" + w.User }

// link is where a person sees a message; empty if the workspace's URL is not known.
func link(site, channel, ts, thread string) string {
	if site == "" {
		return ""
	}
	out := strings.TrimSuffix(site, "/") + "/archives/" + channel + "/p" + strings.ReplaceAll(ts, ".", "")
	if thread != "" && thread != ts {
		out += "?thread_ts=" + thread + "&cid=" + channel
	}
	u, err := transport.ParseURL(out)
	if err != nil {
		return ""
	}
	return u.String()
}

// stampOf gives the time stamp of a message that is made then.
func stampOf(t time.Time) string {
	us := max(0, t.UnixMicro())
	frac := strconv.FormatInt(us%1_000_000, 10)
	return strconv.FormatInt(us/1_000_000, 10) + "." + strings.Repeat("0", 6-len(frac)) + frac
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

// clockOf reads Slack's clock off an answer.
func clockOf(a transport.Answer) (time.Time, bool) {
	at, err := time.Parse("Mon, 02 Jan 2006 15:04:05 GMT", a.Header.Get("Date"))
	return at, err == nil
}

// mostKnown bounds what is remembered of tokens, and of people, before all is
// forgotten.
const mostKnown = 10_000

// known remembers what never changes: whose a token is, and a person's conversation
// with it. Forgetting costs a request.
type known struct {
	mu     sync.Mutex
	owners map[[sha256.Size]byte]who
	chats  map[[sha256.Size]byte]string
}

func keyOf(auth kit.Auth, user string) [sha256.Size]byte {
	h := sha256.New()
	for _, header := range auth.Headers {
		_, _ = h.Write([]byte(header.Value + "\x00"))
	}
	_, _ = h.Write([]byte(user))
	return [sha256.Size]byte(h.Sum(nil))
}

func (k *known) owner(auth kit.Auth) who {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.owners[keyOf(auth, "")]
}

func (k *known) chat(auth kit.Auth, user string) string {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.chats[keyOf(auth, user)]
}

func (k *known) keepOwner(auth kit.Auth, whose who) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.owners == nil || len(k.owners) >= mostKnown {
		k.owners = make(map[[sha256.Size]byte]who)
	}
	k.owners[keyOf(auth, "")] = whose
}

func (k *known) keepChat(auth kit.Auth, user, channel string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.chats == nil || len(k.chats) >= mostKnown {
		k.chats = make(map[[sha256.Size]byte]string)
	}
	k.chats[keyOf(auth, user)] = channel
}
