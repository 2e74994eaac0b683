package x

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/text/unicode/norm"
	"pgregory.net/rapid"

	"github.com/fireonce/fireonce/internal/connector"
	"github.com/fireonce/fireonce/internal/connector/lookup"
	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/internal/twittertext"
)

// tell is a model of X's documented changes to a text: it returns what X would return
// for it.
func tell(text string, odd bool) told {
	t := told{links: make(map[string]string)}
	var b strings.Builder
	from := 0
	text = norm.NFC.String(text)
	escape := strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;")
	for i, l := range twittertext.Links(text) {
		link := text[l.From:l.To]
		b.WriteString(escape.Replace(text[from:l.From]))
		from = l.To
		if short.MatchString(link) {
			b.WriteString(link)
			t.links[link] = "https://elsewhere.example/"
			continue
		}
		wrapped := fmt.Sprintf("https://t.co/%010d", i)
		b.WriteString(wrapped)
		if !strings.Contains(strings.ToLower(link), "://") {
			link = "http://" + link
		}
		if odd && strings.Count(link, "/") == 2 && !strings.ContainsAny(link, "?#") {
			link += "/"
		}
		t.links[wrapped] = link
	}
	b.WriteString(escape.Replace(text[from:]))
	t.text = strings.TrimSpace(b.String())
	if odd {
		t.text = strings.ReplaceAll(t.text, " ", "\n")
	}
	return t
}

var texts = rapid.Custom(func(t *rapid.T) string {
	parts := rapid.SliceOfN(rapid.OneOf(
		rapid.SampledFrom([]string{
			"a", "B", "&", "<b>", "&amp;", "\u00e4", "a\u0308", "あ", "\U0001f600", "…", " ", "\n", "@ada ", "#tag", ".", "https://a.example/x", " https://b.org/?a=b&c=d ",
			" c.com ", "d.com.", "https://t.co/abcdefghij ", "/status/17",
		}),
		rapid.StringN(1, 8, -1),
	), 1, 12).Draw(t, "parts")
	text := strings.Join(parts, "")
	if normal(text) == "" {
		return "a" + text
	}
	return text
})

// TestToldTextsAreRecognised draws texts, and lets X tell them: they are ours, for sure.
func TestToldTextsAreRecognised(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := content{Text: texts.Draw(t, "text")}
		if rapid.Bool().Draw(t, "reply") {
			want.ReplyTo = "17"
		}
		got := tell(want.Text, rapid.Bool().Draw(t, "odd"))
		if want.ReplyTo != "" && rapid.Bool().Draw(t, "mention") {
			got.text = "@somebody @else_2 " + got.text
		}
		if want.Quote == "" && rapid.Bool().Draw(t, "quote") {
			want.Quote = "18"
			got.text += " https://t.co/quotequote"
			got.links["https://t.co/quotequote"] = "https://x.com/somebody/status/18"
		}
		if got.like(want) != same {
			t.Fatalf("%q told as %+v is not recognised: %d", want.Text, got, got.like(want))
		}
	})
}

// TestOtherTextsAreNot draws two texts: what is taken for the same is the same, but for
// white space, links' schemes and the names that a reply begins with.
func TestOtherTextsAreNot(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want, other := content{Text: texts.Draw(t, "text")}, texts.Draw(t, "other")
		if tell(other, false).like(want) == same && normal(other) != normal(want.Text) {
			t.Fatalf("%q is taken for %q", other, want.Text)
		}
	})
}

// TestCutTexts: a text that is cut fits if it begins alike, for a person to see.
func TestCutTexts(t *testing.T) {
	const link = "https://t.co/abcdefghij"
	want := content{Text: strings.Repeat("a long post & more, ", 30)}
	begin := strings.Repeat("a long post &amp; more, ", 10)
	for name, c := range map[string]struct {
		text, target string
		want         content
		like         likeness
	}{
		"without a link":           {begin + "a long…", "", want, similar},
		"with a link":              {begin + "a long… " + link, "", want, similar},
		"with a link to the rest":  {begin + "a long… " + link, "https://x.com/i/web/status/17", want, similar},
		"another":                  {begin + "another… " + link, "https://x.com/i/web/status/17", want, differs},
		"too short to say":         {"a long… " + link, "", want, differs},
		"ours ends with dots":      {begin + "a long… " + link, "", content{Text: want.Text + "…"}, similar},
		"with a link before that":  {"see https://t.co/b " + begin + "a long… " + link, "", content{Text: "see https://a.example/x " + want.Text}, similar},
		"another that is short":    {"a long post &amp; more, and more…", "", content{Text: "a long post & more, and more of it"}, differs},
		"escaped in no known way":  {"so &lt;b&gt; is written", "", content{Text: "so &lt;b&gt; is written"}, near},
		"text beside the link":     {"見て" + link + ",です", "", content{Text: "見てa.com/x,です"}, similar},
		"dots before our own link": {"see… " + link, "https://x.com/ada/status/17", content{Text: "see… https://x.com/ada/status/17"}, same},
		"a target that is cut":     {"see " + link, "https://a.example/very-lo…", content{Text: "see https://a.example/very-long"}, similar},
	} {
		got := told{text: c.text, links: map[string]string{}}
		if c.target != "" {
			got.links[link] = c.target
		}
		if got := got.like(c.want); got != c.like {
			t.Errorf("%s: %d, want %d", name, got, c.like)
		}
	}
}

func FuzzLike(f *testing.F) {
	f.Add("hello https://t.co/abc", "https://t.co/abc", "https://a.example", "hello https://a.example")
	f.Add("a &amp; b…", "", "", "a & b and much more of it, cut")
	f.Fuzz(func(t *testing.T, text, link, target, want string) {
		got := told{text: text, links: map[string]string{link: target}}
		_ = got.like(content{Text: want})
		_ = got.like(content{Text: want, ReplyTo: "1", Quote: "2"})
	})
}

// TestSearchAgainstTruth draws accounts (clocks askew, posts of others' hands, listed
// in pages of any size) and holds the search's verdict against what really happened.
// Two things must never be said: that an effect is absent that is there, and that what
// was made before the send is ours.
func TestSearchAgainstTruth(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		start := time.Date(2026, 11, 21, 8, 0, 0, 0, time.UTC).Add(time.Duration(rapid.IntRange(0, 999).Draw(t, "ms")) * time.Millisecond)
		fence := time.Duration(rapid.IntRange(1, 120).Draw(t, "fence")) * time.Second
		want := content{Text: "hello"}
		m := watermark{Version: lookup.WatermarkVersion, Account: "1", Clocks: lookup.Clocks{At: start.Truncate(time.Second), Local: start}}
		s := newSearch(m, want, connector.Look{First: job.Attempt{ArmedAt: start}, Fence: start.Add(fence)})
		var all []object
		add := func(text string, after time.Duration) string {
			made := start.Add(after)
			id := fmt.Sprint(idAt(made) + uint64(len(all)))
			at, number, _ := timeOf(id)
			all = append(all, object{id: id, number: number, at: at, text: told{text: text}})
			return id
		}
		for range rapid.IntRange(0, 8).Draw(t, "others") {
			add(rapid.SampledFrom([]string{"hello", "HELLO", "other"}).Draw(t, "text"), time.Duration(rapid.IntRange(-600, 600).Draw(t, "at"))*time.Second)
		}
		effect := ""
		if rapid.Bool().Draw(t, "landed") {
			// Within the fence, by a clock that may be a little behind ours.
			after := time.Duration(rapid.Int64Range(0, int64(fence)).Draw(t, "landed at"))
			effect = add("hello", after-time.Duration(rapid.IntRange(0, 1500).Draw(t, "skew"))*time.Millisecond)
		}
		slices.SortFunc(all, func(a, b object) int { return strings.Compare(b.id, a.id) })
		all = slices.DeleteFunc(all, func(o object) bool { return o.number <= s.floor() }) // since_id
		size := rapid.IntRange(1, 5).Draw(t, "page")
		for from := 0; ; from += size {
			l := listing{objects: all[from:min(from+size, len(all))]}
			if from+size < len(all) {
				l.next = "more"
			}
			done, err := s.add(l)
			if err != nil {
				t.Fatal(err)
			}
			if done {
				break
			}
		}
		found := s.Found()
		switch {
		case effect != "" && !slices.Contains(found, effect):
			t.Fatalf("our effect %s is not found among %v", effect, found)
		case len(found) == 1 && len(s.Sure) == 1 && s.Sure[0].at.Before(m.At):
			t.Fatalf("%s is from before the send", found[0])
		}
	})
}

// TestLateByXsClock: the time between watermark and arm is the fence's, too. A list from
// before that fence, which a cache may give, proves nothing.
func TestLateByXsClock(t *testing.T) {
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
