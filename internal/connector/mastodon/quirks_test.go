package mastodon_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/fireonce/fireonce/clients/go/fireoncev1"
	"github.com/fireonce/fireonce/internal/connector"
	"github.com/fireonce/fireonce/internal/connector/kit"
	"github.com/fireonce/fireonce/internal/connector/mastodon"
	"github.com/fireonce/fireonce/internal/connector/mastodon/mastodontest"
	"github.com/fireonce/fireonce/internal/connector/transport"
	"github.com/fireonce/fireonce/internal/job"
)

// clock is the time of a world, moved by hand. The server returns whole seconds of the
// real time in its header Date; the tests replace it with this clock's time.
type clock struct {
	mu  sync.Mutex
	now time.Time
}

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) pass(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

// world is one account on one server, and what the engine would do with it.
type world struct {
	*mastodontest.Server
	*clock
	t    *testing.T
	c    *mastodon.Connector
	post *fireoncev1.SocialPost

	prepared connector.Prepared
	first    job.Attempt
	fence    time.Time
	taken    map[string]bool
	uploads  time.Duration // what the uploads before the arm take
}

const (
	readLag   = time.Minute
	fenceTime = time.Minute
)

func newWorld(t *testing.T, o mastodontest.Options) *world {
	t.Helper()
	w := &world{
		t: t, clock: &clock{now: time.Date(2026, 11, 21, 8, 0, 0, 250e6, time.UTC)}, taken: make(map[string]bool),
		post: &fireoncev1.SocialPost{Text: text},
	}
	o.Now, o.Tokens = w.Now, []string{token}
	var err error
	if w.Server, err = mastodontest.Start(o); err != nil {
		t.Fatal(err)
	}
	sender := transport.NewSender(transport.Config{Egress: transport.NewEgress(netip.MustParsePrefix("127.0.0.0/8"))})
	w.c = mastodon.New(mastodon.Config{Sender: sender, Now: w.Now, Media: kit.NewMedia(kit.MediaConfig{
		Egress: transport.NewEgress(netip.MustParsePrefix("127.0.0.0/8")), Dir: t.TempDir(),
	})})
	t.Cleanup(func() {
		_ = w.Close()
		sender.Close()
	})
	return w
}

func (w *world) opening(class job.Class) connector.Opening {
	w.t.Helper()
	r := requestOf(w.t, w.URL(), unset, w.post)
	var err error
	if w.prepared, err = w.c.Prepare(r); err != nil {
		w.t.Fatal(err)
	}
	return connector.Opening{Settings: r.Settings, Class: class, Credential: bearer(w.t, token), Prepared: w.prepared, Fresh: true}
}

// arm reads the watermark and writes the intent.
func (w *world) arm() {
	w.t.Helper()
	mark, err := w.c.Watermark(w.t.Context(), w.opening(job.Observable))
	if err != nil {
		w.t.Fatal(err)
	}
	w.pass(w.uploads)
	w.first = job.Attempt{Number: 1, Round: 1, ArmedAt: w.Now(), Frozen: w.prepared.Frozen, Watermark: mark}
	w.fence = w.Now().Add(fenceTime)
	w.pass(50 * time.Millisecond)
}

// commit makes one request.
func (w *world) commit(class job.Class) job.Outcome {
	w.t.Helper()
	s, err := w.c.Open(w.t.Context(), w.opening(class))
	if err != nil {
		w.t.Fatal(err)
	}
	defer s.Close()
	at := time.Now().Add(30 * time.Second)
	return s.Publish(connector.Commit{Attempt: 1, EffectKey: effectKey, SendBy: at, AnswerBy: at})
}

func (w *world) look() job.Observation {
	w.t.Helper()
	return w.c.Observe(w.t.Context(), w.opening(job.Observable), connector.Look{
		First: w.first, Fence: w.fence, Now: w.Now(),
		Taken: func(context.Context, []string) (map[string]bool, error) { return w.taken, nil },
	})
}

// sees lets the fence and the read lag pass, and looks.
func (w *world) sees(want job.Verdict, words string) job.Observation {
	w.t.Helper()
	w.pass(w.fence.Sub(w.Now()) + readLag)
	return w.seesNow(want, words)
}

func (w *world) seesNow(want job.Verdict, words string) job.Observation {
	w.t.Helper()
	o := w.look()
	if o.Verdict != want || !strings.Contains(o.Detail, words) {
		w.t.Errorf("%s (%s), want %s", o.Verdict, o.Detail, want)
	}
	return o
}

// everywhere runs a test at each server that has to be looked at.
func everywhere(t *testing.T, o mastodontest.Options, test func(*testing.T, *world)) {
	t.Helper()
	for name, software := range map[string]mastodontest.Software{"GoToSocial": mastodontest.GoToSocial, "Pleroma": mastodontest.Pleroma} {
		t.Run(name, func(t *testing.T) {
			o.Software = software
			test(t, newWorld(t, o))
		})
	}
}

func TestLooks(t *testing.T) {
	for name, test := range map[string]func(*testing.T, *world){
		"an account without posts": func(_ *testing.T, w *world) {
			w.arm()
			w.sees(job.SawAbsent, "0 posts")
			id := w.commitAt()
			if o := w.seesNow(job.SawCandidates, id); o.ExternalID != "" {
				t.Errorf("bound to %s, which came after the fence", o.ExternalID)
			}
		},
		"found": func(t *testing.T, w *world) {
			w.Add(mastodontest.Post{Text: text})
			w.pass(time.Hour)
			w.arm()
			id := w.commitAt()
			if o := w.sees(job.SawPresent, id); o.ExternalID != id || o.ExternalURL == "" {
				t.Errorf("%+v, want %s", o, id)
			}
		},
		"what is not ours": func(_ *testing.T, w *world) {
			parent := w.Add(mastodontest.Post{Text: "parent"})
			w.arm()
			w.Add(mastodontest.Post{Text: text, Boost: true})
			w.Add(mastodontest.Post{Text: text, ReplyTo: parent.ID})
			w.Add(mastodontest.Post{Text: text, Warning: "w"})
			w.Add(mastodontest.Post{Text: text + " indeed"})
			w.sees(job.SawAbsent, "5 posts")
		},
		"a reply": func(t *testing.T, w *world) {
			parent := w.Add(mastodontest.Post{Text: "parent"})
			w.post.ReplyToId = parent.ID
			w.arm()
			id := w.commitAt()
			if o := w.sees(job.SawPresent, id); o.ExternalID != id {
				t.Errorf("%+v, want %s", o, id)
			}
		},
		"a twin of somebody's": func(_ *testing.T, w *world) {
			w.arm()
			id := w.commitAt()
			twin := w.Add(mastodontest.Post{Text: text})
			w.sees(job.SawCandidates, "2 posts")
			w.taken[twin.ID] = true
			w.seesNow(job.SawPresent, id)
			w.taken[id] = true
			w.seesNow(job.SawAbsent, "")
		},
		"a twin from just before": func(_ *testing.T, w *world) {
			w.arm()
			w.Add(mastodontest.Post{Text: text, Created: w.first.ArmedAt.Add(-30 * time.Second)})
			w.sees(job.SawCandidates, "not quite those of the send")
		},
		"the newest post is deleted meanwhile": func(_ *testing.T, w *world) {
			w.Add(mastodontest.Post{Text: "old", Created: w.Now().Add(-time.Hour)})
			newest := w.Add(mastodontest.Post{Text: "newest"})
			w.pass(time.Second)
			w.arm()
			id := w.commitAt()
			w.Delete(newest.ID)
			w.sees(job.SawPresent, id)
		},
		"everything is deleted meanwhile": func(_ *testing.T, w *world) {
			old := w.Add(mastodontest.Post{Text: "old"})
			w.arm()
			w.Delete(old.ID)
			w.sees(job.SawInconclusive, "ends before the place")
		},
		"many pages": func(_ *testing.T, w *world) {
			for i := range 30 {
				w.Add(mastodontest.Post{Text: fmt.Sprint("before ", i)})
			}
			w.pass(time.Hour)
			w.arm()
			id := w.commitAt()
			for i := range 60 {
				w.Add(mastodontest.Post{Text: fmt.Sprint("after ", i)})
				w.pass(time.Second / 2)
			}
			w.sees(job.SawPresent, id)
		},
		"more posts than are read": func(_ *testing.T, w *world) {
			w.arm()
			for i := range mastodon.MaxSources + 1 {
				w.Add(mastodontest.Post{Text: fmt.Sprint("after ", i)})
			}
			w.sees(job.SawInconclusive, "more than 200 posts")
		},
		"what it answers is deleted meanwhile": func(_ *testing.T, w *world) {
			w.Add(mastodontest.Post{Text: "old", Created: w.Now().Add(-time.Hour)})
			parent := w.Add(mastodontest.Post{Text: "parent"})
			w.post.ReplyToId = parent.ID
			w.arm()
			id := w.commitAt()
			w.Delete(parent.ID)
			w.sees(job.SawCandidates, id)
		},
		"it is edited meanwhile": func(_ *testing.T, w *world) {
			w.arm()
			id := w.commitAt()
			w.Edit(id, "something else altogether")
			w.sees(job.SawCandidates, id)
		},
		"old posts are edited meanwhile": func(_ *testing.T, w *world) {
			old := w.Add(mastodontest.Post{Text: "old", Created: w.Now().Add(-time.Hour)})
			just := w.Add(mastodontest.Post{Text: "just before", Created: w.Now().Add(-30 * time.Second)})
			w.arm()
			w.Edit(old.ID, text)
			w.Edit(just.ID, "another text")
			w.sees(job.SawAbsent, "2 posts")
		},
		"a credential of nobody's": func(t *testing.T, w *world) {
			w.arm()
			o := w.opening(job.Observable)
			o.Credential = bearer(t, "another")
			w.pass(w.fence.Sub(w.Now()) + readLag)
			got := w.c.Observe(t.Context(), o, connector.Look{First: w.first, Fence: w.fence})
			if got.Verdict != job.SawInconclusive || got.Kind != job.FailAuth {
				t.Errorf("%s %s (%s)", got.Verdict, got.Kind, got.Detail)
			}
		},
		"another server": func(t *testing.T, w *world) {
			w.arm()
			o := w.opening(job.Observable)
			o.Settings = settingsOf(t, w.URL()+"/elsewhere", no)
			got := w.c.Observe(t.Context(), o, connector.Look{First: w.first, Fence: w.fence})
			if got.Verdict != job.SawInconclusive || !strings.Contains(got.Detail, "another server") {
				t.Errorf("%s (%s)", got.Verdict, got.Detail)
			}
		},
		"the clocks move apart": func(_ *testing.T, w *world) {
			w.arm()
			w.Skew(2 * time.Minute)
			w.sees(job.SawInconclusive, "clock")
		},
		"too early": func(_ *testing.T, w *world) {
			w.arm()
			w.seesNow(job.SawInconclusive, "from before the end of the send")
		},
	} {
		t.Run(name, func(t *testing.T) { everywhere(t, mastodontest.Options{PageLimit: 10}, test) })
	}
}

// TestRewritten: a server that changed marks, or lost files, by rules of its own is not
// taken for one that never got the post.
func TestRewritten(t *testing.T) {
	everywhere(t, mastodontest.Options{Rewrite: strings.NewReplacer(",", "").Replace}, func(_ *testing.T, w *world) {
		w.post.Text = "Grüße, aus Köln"
		w.arm()
		w.sees(job.SawCandidates, w.commitAt())
	})
	everywhere(t, mastodontest.Options{LosesFiles: true}, func(t *testing.T, w *world) {
		host := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, _ *http.Request) {
			rw.Header().Set("Content-Type", "image/png")
			_, _ = rw.Write([]byte("picture"))
		}))
		t.Cleanup(host.Close)
		w.post.Media = []*fireoncev1.MediaRef{{Url: host.URL}}
		w.arm()
		w.sees(job.SawCandidates, w.commitAt())
	})
}

// TestManyAlike: an account that posts much at a time posts much that differs in a
// number only, or in marks. None of it hides ours, and none of it is ours.
func TestManyAlike(t *testing.T) {
	others := func(w *world) {
		for _, text := range []string{"Doors: 12-31", "Doors: 1-2-3", "Doors 12:30 again"} {
			w.Add(mastodontest.Post{Text: text})
		}
	}
	everywhere(t, mastodontest.Options{}, func(_ *testing.T, w *world) {
		w.post.Text = "Doors: 12-30"
		w.arm()
		others(w)
		w.sees(job.SawAbsent, "")
	})
	everywhere(t, mastodontest.Options{}, func(_ *testing.T, w *world) {
		w.post.Text = "Doors: 12-30"
		w.arm()
		others(w)
		w.Add(mastodontest.Post{Text: "Doors, 12:30!"})
		w.sees(job.SawPresent, w.commitAt())
	})
	everywhere(t, mastodontest.Options{}, func(_ *testing.T, w *world) {
		w.post.Text = "Doors: 12-30"
		w.arm()
		others(w)
		w.sees(job.SawCandidates, w.Add(mastodontest.Post{Text: "Doors, 12:30!"}).ID)
	})
}

// TestOtherLinks: posts that differ in their link are other posts where sources are
// told. Where links may be shortened, a person is asked.
func TestOtherLinks(t *testing.T) {
	for software, want := range map[mastodontest.Software]job.Verdict{
		mastodontest.GoToSocial: job.SawAbsent, mastodontest.Pleroma: job.SawCandidates,
	} {
		w := newWorld(t, mastodontest.Options{Software: software})
		w.post.Text = "New on the blog: https://a.example/2026/11/one"
		w.arm()
		w.Add(mastodontest.Post{Text: "New on the blog: https://a.example/2026/11/two"})
		w.sees(want, "")
	}
}

// TestSlowUpload: files may take minutes between watermark and arm; the post that comes
// after them is still known for certain.
func TestSlowUpload(t *testing.T) {
	everywhere(t, mastodontest.Options{}, func(_ *testing.T, w *world) {
		w.uploads = 5 * time.Minute
		w.arm()
		w.sees(job.SawPresent, w.commitAt())
	})
	everywhere(t, mastodontest.Options{}, func(_ *testing.T, w *world) {
		w.uploads = 5 * time.Minute
		w.arm()
		w.seesNow(job.SawInconclusive, "from before the end of the send")
		w.sees(job.SawAbsent, "")
	})
}

// commitAt posts as the connector does, and returns the id that no client received.
func (w *world) commitAt() string {
	w.t.Helper()
	if o := w.commit(job.Observable); o.Result != job.ResultSucceeded {
		w.t.Fatalf("%s: %s", o.Result, o.Message)
	}
	all := w.Posts()
	return all[len(all)-1].ID
}

// TestReadLag: what is hidden for a while is found when it shows, and what was hidden
// from the watermark is not taken for ours.
func TestReadLag(t *testing.T) {
	everywhere(t, mastodontest.Options{ReadLag: 90 * time.Second}, func(t *testing.T, w *world) {
		hidden := w.Add(mastodontest.Post{Text: text})
		w.pass(80 * time.Second)
		w.arm()
		id := w.commitAt()
		w.pass(60 * time.Second)
		w.seesNow(job.SawAbsent, "") // too soon: the settle times are there for this
		w.pass(60 * time.Second)
		if o := w.seesNow(job.SawPresent, id); o.ExternalID == hidden.ID {
			t.Error("bound to the post of before")
		}
	})
}

// TestDirect: a list that leaves out direct posts proves nothing about one.
func TestDirect(t *testing.T) {
	options := &fireoncev1.SocialPost_Mastodon{Mastodon: &fireoncev1.MastodonOptions{
		Visibility: fireoncev1.MastodonOptions_VISIBILITY_DIRECT,
	}}
	everywhere(t, mastodontest.Options{HidesDirect: true}, func(_ *testing.T, w *world) {
		w.post.PlatformOptions = options
		w.arm()
		w.commitAt()
		w.sees(job.SawInconclusive, "direct post")
	})
	everywhere(t, mastodontest.Options{}, func(_ *testing.T, w *world) {
		w.post.PlatformOptions = options
		w.arm()
		w.sees(job.SawPresent, w.commitAt())
	})
}

// TestKeys: what a repeat does, by what the server is. The key's hour counts from the
// commit; a repeat that was dropped may be answered with 500, which proves nothing.
func TestKeys(t *testing.T) {
	for name, c := range map[string]struct {
		o       mastodontest.Options
		wait    time.Duration
		effects int
		result  job.Result
	}{
		"Mastodon":                {mastodontest.Options{}, 59 * time.Minute, 1, job.ResultSucceeded},
		"Mastodon, an hour later": {mastodontest.Options{}, time.Hour, 2, job.ResultSucceeded},
		"Mastodon, at once":       {mastodontest.Options{KeyLag: time.Minute}, 59 * time.Second, 2, job.ResultSucceeded},
		"Mastodon, key stored":    {mastodontest.Options{KeyLag: time.Minute}, time.Minute, 1, job.ResultSucceeded},
		"Mastodon, 500":           {mastodontest.Options{ReplayFails: true}, time.Minute, 1, job.ResultUnknown},
		"GoToSocial":              {mastodontest.Options{Software: mastodontest.GoToSocial}, time.Minute, 2, job.ResultSucceeded},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, c.o)
			first := w.commit(job.Keyed)
			w.pass(c.wait)
			second := w.commit(job.Keyed)
			if first.Result != job.ResultSucceeded || second.Result != c.result || len(w.Posts()) != c.effects {
				t.Errorf("%s, then %s: %d posts", first.Result, second.Result, len(w.Posts()))
			}
			if same := first.ExternalID == second.ExternalID; c.result == job.ResultSucceeded && same != (c.effects == 1) {
				t.Errorf("ids %s and %s for %d posts", first.ExternalID, second.ExternalID, c.effects)
			}
		})
	}
}
