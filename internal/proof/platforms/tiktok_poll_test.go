package platforms_test

import (
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fireonce/fireonce/clients/go/connectionsv1"
	"github.com/fireonce/fireonce/internal/connector/tiktok/tiktoktest"
	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/internal/proof/faultproxy"
	"github.com/fireonce/fireonce/internal/proof/platforms"
	"github.com/fireonce/fireonce/store"
)

// sources are the two ways of a video to TikTok.
var sources = map[string]connectionsv1.TikTokSettings_Source{
	"upload": connectionsv1.TikTokSettings_SOURCE_FILE_UPLOAD, "pull": connectionsv1.TikTokSettings_SOURCE_PULL_FROM_URL,
}

// A token that ends while TikTok works on a post holds the account. The post goes on, and
// is found with the next token; none is begun again.
func TestTikTokTokenEndsMidPoll(t *testing.T) {
	t.Parallel()
	for name, source := range sources {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p, on := overTikTok(t, tiktoktest.Options{Token: "first", Process: time.Second}, source)
			w := platforms.NewWorld(t, on)
			id := w.Submit("one", on.Payload("words"))
			w.UntilState(id, job.Accepted)
			p.Set(func(o *tiktoktest.Options) { o.Token = "second" })
			s := w.Until(id, "held", func(s job.Snapshot) bool { return s.Blocked != "" })
			conn, err := w.Store.Connection(t.Context(), store.Ref{Project: w.Connection.Project, ID: w.Connection.ID})
			if err != nil {
				t.Fatal(err)
			}
			if conn.AuthHoldAt.IsZero() || !strings.Contains(conn.AuthHoldReason, "Reconnect this TikTok account") || s.Blocked != conn.AuthHoldReason {
				t.Errorf("held for %q, blocked %q", conn.AuthHoldReason, s.Blocked)
			}
			if s.State != job.Accepted || s.Attempt != 1 {
				t.Errorf("%s after %d attempts\n%s", s.State, s.Attempt, w.Story(id))
			}
			w.Rotate(on.Renewed)
			s = w.UntilState(id, job.Succeeded)
			if posts := p.Posts("words"); len(posts) != 1 || s.Effect.ExternalID != posts[0].ID || p.Begun() != 1 || s.Blocked != "" {
				t.Errorf("%d posts of %d begun, blocked %q\n%s", len(posts), p.Begun(), s.Blocked, w.Story(id))
			}
		})
	}
}

// What becomes of a post that TikTok drops, by the families of its reasons. Only a
// post that has ended is begun again.
func TestTikTokFails(t *testing.T) {
	t.Parallel()
	for reason, words := range map[string]string{
		"duration_check_failed": "too short or too long", "file_format_check_failed": "the file's format",
		"picture_size_check_failed": "size of the picture", "publish_cancelled": "cancelled at TikTok",
		"spam_risk_too_many_posts": "no more posts of this account by apps today", "spam_risk_user_banned_from_posting": "banned this account",
		"spam_risk_text": "text for spam", "a_reason_of_tomorrow": "a_reason_of_tomorrow",
	} {
		t.Run(reason, func(t *testing.T) {
			t.Parallel()
			p, on := overTikTok(t, tiktoktest.Options{Fail: func(string) string { return reason }}, sources["upload"])
			w := platforms.NewWorld(t, on)
			id := w.Submit("one", on.Payload("words"))
			s := w.UntilState(id, job.Failed)
			if !strings.Contains(s.LastError.Message, words) || s.Attempt != 1 || p.Begun() != 1 {
				t.Errorf("%+v after %d attempts, %d begun\n%s", s.LastError, s.Attempt, p.Begun(), w.Story(id))
			}
		})
	}
	for reason, source := range map[string]string{"internal": "upload", "video_pull_failed": "pull"} {
		t.Run(reason+" is tried again", func(t *testing.T) {
			t.Parallel()
			var p *tiktoktest.Platform
			begun := &atomic.Int32{}
			p, on := overTikTok(t, tiktoktest.Options{}, sources[source])
			w := platforms.NewWorld(t, on)
			p.Set(func(o *tiktoktest.Options) {
				o.Fail = func(string) string {
					if begun.Load() == 1 {
						return reason
					}
					return ""
				}
			})
			w.Proxy.Plan(func(r faultproxy.Request) faultproxy.Fate {
				if strings.Contains(r.Path, "/video/init/") {
					begun.Add(1)
				}
				return faultproxy.Fate{}
			})
			id := w.Submit("one", on.Payload("words"))
			s := w.UntilState(id, job.Succeeded)
			if s.Attempt != 2 || p.Begun() != 2 || s.Effect.ExternalID != p.Posts("words")[1].ID {
				t.Errorf("%d attempts, %d begun, bound to %q\n%s", s.Attempt, p.Begun(), s.Effect.ExternalID, w.Story(id))
			}
		})
	}
	t.Run("auth_removed holds, and goes on with another token", func(t *testing.T) {
		t.Parallel()
		gone := &atomic.Bool{}
		gone.Store(true)
		p, on := overTikTok(t, tiktoktest.Options{Fail: func(string) string {
			if gone.Load() {
				return "auth_removed"
			}
			return ""
		}}, sources["upload"])
		w := platforms.NewWorld(t, on)
		id := w.Submit("one", on.Payload("words"))
		s := w.Until(id, "held", func(s job.Snapshot) bool { return s.Blocked != "" && !s.State.InFlight() })
		if !strings.Contains(s.Blocked, "Reconnect this TikTok account") || s.Failures != 0 || len(p.Posts("words")) != 0 {
			t.Errorf("%s, blocked %q, %d failures\n%s", s.State, s.Blocked, s.Failures, w.Story(id))
		}
		begun := p.Begun()
		gone.Store(false)
		w.Rotate(on.Renewed)
		s = w.UntilState(id, job.Succeeded)
		if s.Attempt != 2 || p.Begun() != begun+1 {
			t.Errorf("%d attempts, %d begun\n%s", s.Attempt, p.Begun(), w.Story(id))
		}
	})
}

// Moderation goes on after TikTok has posted: the job has succeeded, once, without an id.
func TestTikTokModeration(t *testing.T) {
	t.Parallel()
	for name, source := range sources {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p, on := overTikTok(t, tiktoktest.Options{Process: time.Second, Moderate: 5 * time.Hour}, source)
			w := platforms.NewWorld(t, on)
			id := w.Submit("one", on.Payload("words"))
			s := w.UntilState(id, job.Succeeded)
			if len(p.Posts("words")) != 1 || p.Begun() != 1 || s.Attempt != 1 || s.Effect.ExternalID != "" || s.Effect.Proof != job.ProofResponse {
				t.Errorf("%d begun, %d attempts, %+v\n%s", p.Begun(), s.Attempt, s.Effect, w.Story(id))
			}
		})
	}
}

// Questions that TikTok limits, or does not answer, hold no posts and end none.
func TestTikTokPollsWithoutAWord(t *testing.T) {
	t.Parallel()
	p, on := overTikTok(t, tiktoktest.Options{}, sources["upload"])
	w := platforms.NewWorld(t, on)
	w.Proxy.Plan(tiktokPlan("/status/fetch/", faultproxy.RetryAfter(time.Second), faultproxy.Fate{Fault: faultproxy.DropAfter},
		status(http.StatusBadGateway, "")))
	first := w.Submit("one", on.Payload("words"))
	w.UntilState(first, job.Accepted)
	second := w.Submit("two", on.Payload("other words"))
	for id, text := range map[job.ID]string{first: "words", second: "other words"} {
		s := w.UntilState(id, job.Succeeded)
		if posts := p.Posts(text); len(posts) != 1 || s.Effect.ExternalID != posts[0].ID || s.Attempt != 1 {
			t.Errorf("%d posts, %d attempts\n%s", len(posts), s.Attempt, w.Story(id))
		}
	}
	if p.Begun() != 2 {
		t.Errorf("%d begun", p.Begun())
	}
}
