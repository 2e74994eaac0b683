package slack

import (
	"regexp"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/fireonce/fireonce/internal/connector"
	"github.com/fireonce/fireonce/internal/connector/lookup"
	"github.com/fireonce/fireonce/internal/job"
)

// TestToldTextsAreAlike draws texts and lets Slack tell them, by a model of the changes
// that it documents: in the loose form they are the same. Texts with colons beside
// emoji are left out: they may read like an emoji's name.
func TestToldTextsAreAlike(t *testing.T) {
	urls := regexp.MustCompile(`https://[a-z./?=&;]+`)
	rapid.Check(t, func(t *rapid.T) {
		text := strings.Join(rapid.SliceOfN(rapid.OneOf(
			rapid.SampledFrom([]string{"a", "&", "<b>", "&amp;", "\u00e4", "a\u0308", "\U0001f600", " ", "\n", "|", "#tag", "https://a.example/x?y=z"}),
			rapid.StringMatching(`[a-zA-Z0-9 .,&<>äあ]{0,6}`),
		), 1, 12).Draw(t, "parts"), "")
		told := strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;").Replace(text)
		if !strings.Contains(text, "<") && !strings.Contains(text, ">") {
			told = urls.ReplaceAllString(told, "<$0|a label>")
		}
		told = strings.ReplaceAll(told, "\U0001f600", ":grinning:")
		if loose(told) != loose(text) {
			t.Fatalf("%q, told as %q: %q and %q", text, told, loose(text), loose(told))
		}
	})
}

func TestStamps(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		at := time.UnixMicro(rapid.Int64Range(0, 1<<52).Draw(t, "µs")).UTC()
		if got, ok := timeOf(stampOf(at)); !ok || !got.Equal(at) {
			t.Fatalf("%v is stamped %s, which is %v, %v", at, stampOf(at), got, ok)
		}
	})
}

func FuzzParse(f *testing.F) {
	f.Add(`{"ok":true,"messages":[{"ts":"1.000001","metadata":{"event_type":"fireonce_job","event_payload":{"job_id":"k"}}}],"has_more":false}`, "C1:1.000001:2.000002")
	f.Add(`{"ok":true,"messages":[],"has_more":true,"response_metadata":{"next_cursor":"c"}}`, "1.000001")
	f.Fuzz(func(t *testing.T, body, id string) {
		if l, err := parseListing([]byte(body)); err == nil {
			s := newSearch(watermark{Channel: "C1", tokenOwner: tokenOwner{User: "U1"}}, content{Text: body, Key: "k"}, connector.Look{})
			if _, err := s.add(l); err == nil && len(s.Found()) > len(l.messages) {
				t.Errorf("%d found among %d", len(s.Found()), len(l.messages))
			}
		}
		if channel, thread, ok := parseID(id); ok && (!stamp.MatchString(thread) || channel != "" && !isChannel(channel)) {
			t.Errorf("%q is %q in %q", id, thread, channel)
		}
		if _, err := thaw([]byte(body)); err == nil {
			t.Errorf("%q is a frozen message", body)
		}
	})
}

// TestLateBySlacksClock: the time between watermark and arm is the fence's, too. A list
// from before that fence, which a cache may give, proves nothing.
func TestLateBySlacksClock(t *testing.T) {
	const ahead, open, fence = time.Hour, 10 * time.Second, time.Minute
	start := time.Unix(1_700_000_000, 0)
	for at, want := range map[time.Duration]bool{fence: false, open + fence - rounding - 1: false, open + fence: true} {
		s := newSearch(watermark{Clocks: lookup.Clocks{At: start.Add(ahead), Local: start}}, content{Text: "ours"}, connector.Look{
			First: job.Attempt{ArmedAt: start.Add(open)}, Fence: start.Add(open + fence), Now: start.Add(at),
		})
		if err := s.Steady(start.Add(ahead+at), start.Add(at)); err != nil || s.Late() != want {
			t.Errorf("%v after the watermark: late %t, %v", at, s.Late(), err)
		}
	}
}
