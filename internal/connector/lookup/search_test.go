package lookup_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fireonce/fireonce/internal/connector"
	"github.com/fireonce/fireonce/internal/connector/lookup"
	"github.com/fireonce/fireonce/internal/job"
)

// object is something that a platform lists.
type object struct {
	id  string
	at  time.Time
	fit lookup.Fit
}

var start = time.Date(2026, 11, 21, 8, 0, 0, 0, time.UTC)

const fence = time.Minute

var rules = lookup.Rules[object]{
	Platform: "the platform", Clock: "the platform's clock", Objects: "posts", Pages: "pages of posts",
	Disorder: "the posts are not listed newest first", Slack: time.Minute, Rounding: 2 * time.Second, MaxPages: 3,
	ID:       func(o object) string { return o.id },
	External: func(o object) string { return "ext:" + o.id },
	Created:  func(o object) time.Time { return o.at },
	URL:      func(o object) string { return "https://example.org/" + o.id },
}

var wording = lookup.Wording{Object: "post", Objects: "posts", Missing: "this content", One: "is it?", Many: "are alike"}

func clocks() lookup.Clocks { return lookup.Clocks{At: start, Local: start} }

func look() connector.Look {
	return connector.Look{First: job.Attempt{ArmedAt: start}, Fence: start.Add(fence)}
}

// search has read the objects in one page, after the fence.
func search(t *testing.T, l connector.Look, objects ...object) lookup.Search[object] {
	t.Helper()
	s := lookup.New(rules, clocks(), l)
	if err := s.Steady(start.Add(fence), start.Add(fence)); err != nil {
		t.Fatal(err)
	}
	if err := s.Add(objects, func(o object) lookup.Fit { return o.fit }); err != nil {
		t.Fatal(err)
	}
	return s
}

func TestSteady(t *testing.T) {
	for name, tt := range map[string]struct {
		platform, local time.Duration
		steady          bool
	}{
		"alike":           {time.Hour, time.Hour, true},
		"a minute ahead":  {time.Hour + time.Minute, time.Hour, true},
		"more than that":  {time.Hour + time.Minute + 1, time.Hour, false},
		"a minute behind": {time.Hour, time.Hour + time.Minute, true},
		"more behind":     {time.Hour, time.Hour + time.Minute + 1, false},
	} {
		s := lookup.New(rules, clocks(), look())
		err := s.Steady(start.Add(tt.platform), start.Add(tt.local))
		if errors.Is(err, lookup.ErrUnsteady) == tt.steady {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestAddRefuses(t *testing.T) {
	s := search(t, look(), object{id: "a", at: start})
	none := func(object) lookup.Fit { return lookup.Other }
	if err := s.Add([]object{{id: "a", at: start}}, none); !errors.Is(err, lookup.ErrShifted) {
		t.Errorf("an object twice: %v", err)
	}
	if err := s.Add([]object{{id: "b", at: start.Add(time.Minute)}}, none); err != nil {
		t.Errorf("newer by the slack: %v", err)
	}
	if err := s.Add([]object{{id: "c", at: start.Add(time.Minute + 1)}}, none); !errors.Is(err, lookup.ErrDisorder) || err.Error() != rules.Disorder {
		t.Errorf("newer than that: %v", err)
	}
	unordered := rules
	unordered.Disorder = ""
	s = lookup.New(unordered, clocks(), look())
	if err := s.Add([]object{{id: "a", at: start}, {id: "b", at: start.Add(time.Hour)}}, none); err != nil {
		t.Errorf("a list without an order: %v", err)
	}
}

func TestEnded(t *testing.T) {
	old, fresh := object{id: "old", at: start.Add(-2*time.Minute - 1)}, object{id: "new", at: start.Add(time.Second)}
	before, within := object{id: "before", at: start.Add(-1)}, object{id: "within", at: start.Add(-2 * time.Minute)}
	for name, tt := range map[string]struct {
		objects []object
		more    bool
		seen    []string
		done    bool
		want    error
	}{
		"behind the watermark":       {[]object{fresh, old}, true, []string{"gone"}, true, nil},
		"not behind it, and more":    {[]object{fresh}, true, nil, false, nil},
		"within the slack, and more": {[]object{fresh, within}, true, nil, false, nil},
		"an empty list":              {nil, false, nil, true, nil},
		"ends at what was there":     {[]object{fresh}, false, []string{"new"}, true, nil},
		"ends at another of them":    {[]object{fresh}, false, []string{"gone", "new"}, true, nil},
		"ends before the watermark":  {[]object{before}, false, []string{"gone"}, true, nil},
		"ends without what was seen": {[]object{fresh}, false, []string{"gone"}, false, lookup.ErrCutShort},
		"empty, but it was not":      {nil, false, []string{"gone"}, false, lookup.ErrCutShort},
	} {
		s := search(t, look(), tt.objects...)
		if done, err := s.Ended(tt.more, tt.seen); done != tt.done || !errors.Is(err, tt.want) {
			t.Errorf("%s: %v, %v", name, done, err)
		}
	}
}

func TestReadPages(t *testing.T) {
	for name, tt := range map[string]struct {
		tokens []string // of the next page; the last page is done
		want   string
	}{
		"one page":       {[]string{""}, ""},
		"three":          {[]string{"a", "b", ""}, ""},
		"too many":       {[]string{"a", "b", "c", ""}, "more than 3 pages of posts since the send"},
		"a token twice":  {[]string{"a", "a", ""}, lookup.ErrShifted.Error()},
		"a page refused": {[]string{"a"}, "refused"},
	} {
		s, n := lookup.New(rules, clocks(), look()), 0
		err := s.ReadPages(func(token string) (string, bool, error) {
			if want := append([]string{""}, tt.tokens...)[n]; token != want {
				t.Errorf("%s: page %d has the token %q, want %q", name, n, token, want)
			}
			if n == len(tt.tokens) {
				return "", false, errors.New("refused")
			}
			n++
			return tt.tokens[n-1], tt.tokens[n-1] == "", nil
		})
		if tt.want == "" && err != nil || tt.want != "" && (err == nil || err.Error() != tt.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestVerdicts(t *testing.T) {
	sure := func(id string) object { return object{id, start, lookup.Sure} }
	maybe := func(id string) object { return object{id, start, lookup.Uncertain} }
	alike := func(id string) object { return object{id, start, lookup.Alike} }
	for name, tt := range map[string]struct {
		objects []object
		lookAny bool
		want    job.Verdict
		detail  string
	}{
		"nothing":                  {nil, false, job.SawAbsent, "0 posts read, back to before the send; none has this content"},
		"others":                   {[]object{{"x", start, lookup.Other}}, false, job.SawAbsent, "1 posts read, back to before the send; none has this content"},
		"sure":                     {[]object{sure("a")}, false, job.SawPresent, "found as post ext:a"},
		"sure, and alike":          {[]object{alike("b"), sure("a")}, false, job.SawPresent, "found as post ext:a"},
		"sure, and uncertain":      {[]object{maybe("b"), sure("a")}, false, job.SawCandidates, "2 posts are alike: ext:a, ext:b"},
		"two that are sure":        {[]object{sure("a"), sure("b")}, false, job.SawCandidates, "2 posts are alike: ext:a, ext:b"},
		"any of two":               {[]object{sure("a"), sure("b")}, true, job.SawPresent, "found as post ext:a"},
		"any, but uncertain":       {[]object{maybe("a"), maybe("b")}, true, job.SawCandidates, "2 posts are alike: ext:a, ext:b"},
		"uncertain":                {[]object{maybe("a")}, false, job.SawCandidates, "post ext:a is it?"},
		"uncertain, and alike":     {[]object{alike("b"), maybe("a")}, false, job.SawCandidates, "2 posts are alike: ext:a, ext:b"},
		"alike":                    {[]object{alike("a")}, false, job.SawCandidates, "post ext:a is it?"},
		"taken":                    {[]object{sure("taken")}, false, job.SawAbsent, "1 posts read, back to before the send; none has this content"},
		"sure, beside a taken one": {[]object{sure("a"), sure("taken"), maybe("taken2")}, false, job.SawPresent, "found as post ext:a"},
	} {
		l := look()
		l.Any = tt.lookAny
		l.Taken = func(_ context.Context, ids []string) (map[string]bool, error) {
			taken := make(map[string]bool)
			for _, id := range ids {
				taken[id] = strings.HasPrefix(id, "ext:taken")
			}
			return taken, nil
		}
		s := search(t, l, tt.objects...)
		if _, err := s.DropTaken(t.Context()); err != nil {
			t.Fatal(err)
		}
		got := s.Verdict(wording)
		if got.Verdict != tt.want || got.Detail != tt.detail {
			t.Errorf("%s: %v, %s", name, got.Verdict, got.Detail)
		}
		if present := got.Verdict == job.SawPresent; present != (got.ExternalID == "ext:a") || present != (got.ExternalURL == "https://example.org/a") {
			t.Errorf("%s: %q at %q", name, got.ExternalID, got.ExternalURL)
		}
	}
}

func TestAListFromBeforeTheFence(t *testing.T) {
	for at, late := range map[time.Duration]bool{fence - 2*time.Second - 1: false, fence - 2*time.Second: true, fence: true} {
		s := lookup.New(rules, clocks(), look())
		if err := s.Steady(start.Add(at), start.Add(at)); err != nil || s.Late() != late {
			t.Errorf("%v after the watermark: late %v, %v", at, s.Late(), err)
		}
		if err := s.Add([]object{{"x", start, lookup.Other}}, func(o object) lookup.Fit { return o.fit }); err != nil {
			t.Fatal(err)
		}
		if got := s.Verdict(wording).Verdict; (got == job.SawAbsent) != late {
			t.Errorf("%v after the watermark: %v", at, got)
		}
	}
}

func TestTakenInBatches(t *testing.T) {
	l, most := look(), 0
	var asked []string
	l.Taken = func(_ context.Context, ids []string) (map[string]bool, error) {
		most, asked = max(most, len(ids)), append(asked, ids...)
		return nil, nil
	}
	var objects []object
	for i := range 1201 {
		objects = append(objects, object{string(rune('a' + i)), start, []lookup.Fit{lookup.Sure, lookup.Uncertain, lookup.Alike}[i%3]})
	}
	s := search(t, l, objects...)
	if dropped, err := s.DropTaken(t.Context()); dropped || err != nil || most != 500 || len(asked) != 1201 {
		t.Errorf("dropped %v, %v: %d ids, at most %d in a call", dropped, err, len(asked), most)
	}
	s.Look.Taken = func(context.Context, []string) (map[string]bool, error) { return nil, errors.New("broken") }
	if _, err := s.DropTaken(t.Context()); err == nil || err.Error() != "it could not be read which posts are other jobs'" {
		t.Errorf("owners that could not be read: %v", err)
	}
}

func TestSort(t *testing.T) {
	s := search(t, look(), object{"a", start, lookup.Uncertain}, object{"b", start, lookup.Sure}, object{"c", start, lookup.Sure})
	var order []string
	err := s.Sort(func(o object, before lookup.Fit) (lookup.Fit, error) {
		order = append(order, o.id)
		if before != o.fit {
			t.Errorf("%s was %v, want %v", o.id, before, o.fit)
		}
		return map[string]lookup.Fit{"a": lookup.Sure, "b": lookup.Alike, "c": lookup.Other}[o.id], nil
	})
	if err != nil || !slices.Equal(order, []string{"b", "c", "a"}) || len(s.Sure) != 1 || len(s.Alike) != 1 || len(s.Uncertain) != 0 {
		t.Errorf("%v, %v: %+v %+v %+v", err, order, s.Sure, s.Uncertain, s.Alike)
	}
	if err := s.Sort(func(object, lookup.Fit) (lookup.Fit, error) { return lookup.Other, errors.New("broken") }); err == nil {
		t.Error("an error got lost")
	}
}

func TestWatermark(t *testing.T) {
	type mark struct {
		Version int `json:"v"`
		lookup.Clocks
		Seen []string `json:"seen"`
	}
	text, err := lookup.EncodeWatermark(mark{1, clocks(), []string{"a"}})
	if err != nil || text != `{"v":1,"at":"2026-11-21T08:00:00Z","local":"2026-11-21T08:00:00Z","seen":["a"]}` {
		t.Errorf("%s, %v", text, err)
	}
	valid := func(m mark) bool { return m.Version == 1 && m.Known() }
	if m, err := lookup.ParseWatermark(text, valid); err != nil || !m.At.Equal(start) || m.Earlier(time.Hour).At != start.Add(-time.Hour) {
		t.Errorf("%+v, %v", m, err)
	}
	for _, bad := range []string{"", "{}", strings.Replace(text, `"v":1`, `"v":2`, 1), strings.Replace(text, `"at":"2026-11-21T08:00:00Z",`, "", 1)} {
		if m, err := lookup.ParseWatermark(bad, valid); err == nil || m.Version != 0 {
			t.Errorf("%q: %+v, %v", bad, m, err)
		}
	}
	page := []object{{id: "newest", at: start.Add(-time.Hour)}, {id: "recent", at: start.Add(-time.Minute)}, {id: "older", at: start.Add(-time.Minute - 1)}}
	if seen := lookup.Seen(rules, page, start); !slices.Equal(seen, []string{"newest", "recent"}) {
		t.Error(seen)
	}
}

func TestNames(t *testing.T) {
	if got := lookup.Names([]string{"a", "b", "c", "d", "e", "f", "g"}); got != "a, b, c, d, e and 2 more" {
		t.Error(got)
	}
}
