package feed

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/fireonce/fireonce/internal/connector"
	"github.com/fireonce/fireonce/internal/connector/lookup"
	"github.com/fireonce/fireonce/internal/job"
)

// TestSearchAgainstTruth draws platforms (clocks off, stamps askew, posts listed late,
// twins of our post by others, pages of any size) and compares the search's verdict
// with what really happened. The search must never report an effect as absent that is
// there, nor another client's post as ours.
func TestSearchAgainstTruth(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := drawTruth(t)
		s := w.search()
		err := w.read(t, s)
		if err != nil {
			t.Fatalf("a complete read failed: %v", err)
		}
		ids := s.Found()
		present := len(ids) == 1 && len(s.Sure) == 1
		switch {
		case w.effect != "" && !slices.Contains(ids, w.effect):
			t.Fatalf("our effect %s is not found; found %v in %+v", w.effect, ids, w)
		case present && ids[0] != w.effect && !w.twins[ids[0]]:
			t.Fatalf("%s is taken for ours, which is %q; %+v", ids[0], w.effect, w)
		}
	})
}

// truth is what happened, on the true clock that starts at 0 with the watermark.
type truth struct {
	offset  time.Duration // the platform's clock
	fence   time.Duration
	lookAt  time.Duration
	lag     time.Duration
	posts   []fact
	effect  string          // our post's id; empty: it never got there
	twins   map[string]bool // others' posts that cannot be distinguished from ours
	page    int
	byStamp bool // the list is in order of the stamps, not of the commits
}

// fact is a post as it happened.
type fact struct {
	id      string
	at      time.Duration // the commit
	stamp   time.Duration // what the platform says of it, less its offset
	shown   time.Duration
	content content
}

var epoch = time.Date(2026, 11, 21, 8, 0, 0, 0, time.UTC)

func drawTruth(t *rapid.T) truth {
	seconds := func(name string, from, to int) time.Duration {
		return time.Duration(rapid.IntRange(from*10, to*10).Draw(t, name)) * 100 * time.Millisecond
	}
	ours, others := content{Text: "ours"}, content{Text: "others"}
	w := truth{
		offset: seconds("offset", -90000, 90000), fence: 60 * time.Second, lag: seconds("lag", 0, 120),
		page: rapid.IntRange(1, 7).Draw(t, "page"), byStamp: rapid.Bool().Draw(t, "by stamp"), twins: make(map[string]bool),
	}
	w.lookAt = w.fence + w.lag + seconds("look", 0, 600)
	sent := rapid.Bool().Draw(t, "took effect")
	n := rapid.IntRange(0, 25).Draw(t, "posts")
	for i := range n + 1 {
		f := fact{id: fmt.Sprintf("p%d", i), content: others}
		if i == n && !sent {
			break
		}
		if i == n {
			f.at, f.content, w.effect = seconds("ours at", 0, 60), ours, f.id
		} else {
			f.at = seconds("at", -600, 700)
			if rapid.IntRange(0, 4).Draw(t, "twin") == 0 {
				f.content = ours
			}
		}
		f.stamp = f.at
		if rapid.IntRange(0, 3).Draw(t, "askew") == 0 { // another server of the platform, whose clock is off
			f.stamp += seconds("skew", -25, 25)
		}
		f.shown = f.at + time.Duration(rapid.IntRange(0, 10).Draw(t, "share of the lag"))*w.lag/10
		// A twin that was made in our window, or has a stamp in it, cannot be
		// distinguished from ours.
		if i < n && f.content == ours && f.stamp >= 0 && f.stamp <= w.fence {
			w.twins[f.id] = true
		}
		w.posts = append(w.posts, f)
	}
	return w
}

// list is what the platform lists at a time, the newest first.
func (w truth) list(at time.Duration) []post {
	facts := slices.Clone(w.posts)
	facts = slices.DeleteFunc(facts, func(f fact) bool { return f.at > at || f.shown > at })
	slices.SortStableFunc(facts, func(a, b fact) int {
		if w.byStamp {
			return cmp.Compare(b.stamp, a.stamp)
		}
		return cmp.Compare(b.at, a.at)
	})
	out := make([]post, 0, len(facts))
	for _, f := range facts {
		out = append(out, post{id: f.id, print: f.content.fingerprint(), created: epoch.Add(w.offset + f.stamp + time.Nanosecond)})
	}
	return out
}

// until is a look at an attempt whose fence is so long after its arm.
func until(fence time.Duration) connector.Look {
	return connector.Look{First: job.Attempt{ArmedAt: epoch}, Fence: epoch.Add(fence)}
}

func (w truth) search() *search {
	newest := w.list(-1) // what was committed before the watermark
	l := listing{account: "a", now: epoch.Add(w.offset), posts: newest[:min(len(newest), watermarkSize)], cursors: true}
	return newSearch(watermarkOf("https://feed.example/", l, epoch), content{Text: "ours"}, until(w.fence))
}

// read reads page by page until the search is done.
func (w truth) read(t *rapid.T, s *search) error {
	all := w.list(w.lookAt)
	for from := 0; ; from += w.page {
		to := min(from+w.page, len(all))
		l := listing{account: "a", now: epoch.Add(w.offset + w.lookAt), posts: all[from:to], cursors: true}
		if to < len(all) {
			l.next = "more"
		}
		done, err := s.add(l, epoch.Add(w.lookAt))
		if done || err != nil {
			return err
		}
		if l.next == "" {
			t.Fatal("the list's end is not the end of the read")
		}
	}
}

// TestAddRefuses: reads that no verdict may rest on.
func TestAddRefuses(t *testing.T) {
	m := watermark{Version: lookup.WatermarkVersion, Base: "b", Account: "a", Clocks: lookup.Clocks{At: epoch, Local: epoch}, Seen: []string{"old"}}
	good := func() listing { return listing{account: "a", now: epoch, cursors: true, next: "more"} }
	for name, c := range map[string]struct {
		edit func(*listing)
		want error
	}{
		"fine":         {func(*listing) {}, nil},
		"foreign":      {func(l *listing) { l.account = "b" }, connector.ErrForeign},
		"no cursors":   {func(l *listing) { l.cursors = false }, errNoCursor},
		"clock ahead":  {func(l *listing) { l.now = epoch.Add(slack + 1) }, lookup.ErrUnsteady},
		"clock behind": {func(l *listing) { l.now = epoch.Add(-slack - 1) }, lookup.ErrUnsteady},
		"twice":        {func(l *listing) { l.posts = []post{{id: "x", created: epoch}, {id: "x", created: epoch}} }, lookup.ErrShifted},
		"oldest first": {func(l *listing) {
			l.posts = []post{{id: "x", created: epoch.Add(-slack - 1)}, {id: "y", created: epoch}}
		}, lookup.ErrDisorder},
		"cut short":       {func(l *listing) { l.next = "" }, lookup.ErrCutShort},
		"cut short, new":  {func(l *listing) { l.next, l.posts = "", []post{{id: "x", created: epoch.Add(1)}} }, lookup.ErrCutShort},
		"ends at the old": {func(l *listing) { l.next, l.posts = "", []post{{id: "old", created: epoch.Add(1)}} }, nil},
	} {
		l := good()
		c.edit(&l)
		if _, err := newSearch(m, content{Text: "ours"}, until(time.Minute)).add(l, epoch); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
	}
	empty := m
	empty.Seen = nil
	l := good()
	l.next = ""
	if done, err := newSearch(empty, content{Text: "ours"}, until(time.Minute)).add(l, epoch); !done || err != nil {
		t.Errorf("an empty feed: %v, %v", done, err)
	}
}

// FuzzParseListing: whatever a platform answers is a page of which everything is
// known, or none.
func FuzzParseListing(f *testing.F) {
	f.Add([]byte(`{"account":"a","now":"2026-11-21T08:00:00Z","posts":[{"id":"p1","text":"x","created_at":"2026-11-21T08:00:00Z"}],"next":"p1"}`))
	f.Add([]byte(`{"account":"a","now":"2026-11-21T08:00:00Z","posts":[],"next":null}`))
	f.Add([]byte(`{"account":"a","now":"2026-11-21T08:00:00Z","posts":[],"next":7,"next":null}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		l, err := parseListing(body)
		if err != nil {
			return
		}
		if !validID(l.account) || len(l.posts) > maxPosts || l.next != "" && (!l.cursors || !validID(l.next)) {
			t.Fatalf("%+v", l)
		}
		for _, p := range l.posts {
			if !validID(p.id) || p.print == [32]byte{} {
				t.Fatalf("%+v", p)
			}
		}
		text, err := lookup.EncodeWatermark(watermarkOf("https://feed.example/", l, epoch))
		if err != nil {
			return // a time that JSON has no form for
		}
		if m, err := watermarks.Parse(text); err == nil && (m.Account != l.account || !m.At.Equal(l.now)) {
			t.Fatalf("%s", text)
		}
	})
}

// FuzzParseCreated: a post's answer has a usable id, or is none.
func FuzzParseCreated(f *testing.F) {
	f.Add([]byte(`{"id":"p1","url":"https://feed.example/p1"}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		if p, err := parseCreated(body); err == nil && !validID(p.id) {
			t.Fatalf("%+v", p)
		}
	})
}

// FuzzNormal: the form in which texts are compared is one: it is its own form,
// and what an answer says in JSON has it too.
func FuzzNormal(f *testing.F) {
	f.Add("Gru\u0308\u00dfe\r\n a", "x")
	f.Add("\u0344\u2126\u00a0", "\u1e9b\u0323")
	f.Fuzz(func(t *testing.T, a, b string) {
		if n := normal(a); normal(n) != n || normal(" "+a+"\n") != n {
			t.Fatalf("%q becomes %q, which becomes %q", a, n, normal(n))
		}
		if (normal(a) == normal(b)) != (fingerprint(a, "") == fingerprint(b, "")) {
			t.Fatalf("%q, %q", a, b)
		}
		if fingerprint(a, b) == fingerprint(a, b+"x") {
			t.Fatal("a reply has the fingerprint of another")
		}
	})
}

// FuzzParseMark: a watermark from a damaged database is one or none.
func FuzzParseMark(f *testing.F) {
	f.Add(`{"v":1,"base":"b","account":"a","at":"2026-11-21T08:00:00Z","local":"2026-11-21T08:00:00Z","seen":["p1"]}`)
	f.Fuzz(func(t *testing.T, text string) {
		m, err := watermarks.Parse(text)
		if err != nil {
			return
		}
		again, err := lookup.EncodeWatermark(m)
		if back, err2 := watermarks.Parse(again); err != nil || err2 != nil || !back.At.Equal(m.At) || back.Account != m.Account {
			t.Fatalf("%q: %v, %v", text, err, err2)
		}
	})
}

// TestLateByThePlatformsClock: the time between watermark and arm is the fence's, too. A
// list from before that fence, which a cache may give, proves nothing.
func TestLateByThePlatformsClock(t *testing.T) {
	const ahead, open, fence = time.Hour, 10 * time.Second, time.Minute
	l := until(fence)
	l.First.ArmedAt, l.Fence = l.First.ArmedAt.Add(open), l.Fence.Add(open)
	for at, want := range map[time.Duration]bool{fence: false, open + fence - rounding - 1: false, open + fence: true} {
		m := watermark{Account: "a", Clocks: lookup.Clocks{At: epoch.Add(ahead), Local: epoch}}
		l.Now = epoch.Add(at)
		s := newSearch(m, content{Text: "ours"}, l)
		page := listing{account: "a", now: epoch.Add(ahead + at), cursors: true}
		if _, err := s.add(page, epoch.Add(at)); err != nil || s.Late() != want {
			t.Errorf("%v after the watermark: late %t, %v", at, s.Late(), err)
		}
	}
}
