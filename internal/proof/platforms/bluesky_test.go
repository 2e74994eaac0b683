package platforms_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/fireonce/fireonce/clients/go/connectionsv1"
	"github.com/fireonce/fireonce/clients/go/fireoncev1"
	"github.com/fireonce/fireonce/internal/connector"
	"github.com/fireonce/fireonce/internal/connector/bluesky"
	"github.com/fireonce/fireonce/internal/connector/transport"
	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/internal/proof/faultproxy"
	"github.com/fireonce/fireonce/internal/proof/platforms"
	"github.com/fireonce/fireonce/internal/proof/platforms/pds"
	"github.com/fireonce/fireonce/store"
)

// A real personal data server.
func TestBluesky(t *testing.T) {
	t.Parallel()
	server := pds.Start(t)
	platforms.Run(t, func(t *testing.T) platforms.Platform {
		t.Helper()
		return blueskyOf(t, server.URL, server.Account(t))
	})
}

func blueskyOf(t *testing.T, url string, account *pds.Account) platforms.Platform {
	t.Helper()
	return platforms.Platform{
		URL: url, Class: job.Keyed,
		Credential: basic(account.Handle, account.Password), Renewed: basic(account.Handle, account.AppPassword(t, "second")),
		Connector: func(s *transport.Sender, _ string) connector.Connector { return bluesky.New(bluesky.Config{Sender: s}) },
		Settings:  func(baseURL string) []byte { return encoded(t, &connectionsv1.BlueskySettings{BaseUrl: baseURL}) },
		Payload: func(text string) *fireoncev1.Payload {
			return &fireoncev1.Payload{Kind: &fireoncev1.Payload_SocialPost{SocialPost: &fireoncev1.SocialPost{Text: text}}}
		},
		Commits: func(r faultproxy.Request) bool { return strings.HasSuffix(r.Path, "/com.atproto.repo.putRecord") },
		Effects: func(text string) (uris []string) {
			for _, post := range account.Posts(t) {
				if post.Text() == text {
					uris = append(uris, post.URI)
				}
			}
			return uris
		},
		Parent: func(uri string) string {
			for _, post := range account.Posts(t) {
				if post.URI == uri {
					reply, _ := post.Record["reply"].(map[string]any)
					parent, _ := reply["parent"].(map[string]any)
					to, _ := parent["uri"].(string)
					return to
				}
			}
			return "no such post"
		},
		HoldWords: "Reconnect this Bluesky account", RefusedWords: "Invalid app.bsky.feed.post record",
		Unauthorized: status(http.StatusUnauthorized, `{"error":"AuthenticationRequired","message":"Invalid identifier or password"}`),
		Refused:      status(http.StatusBadRequest, `{"error":"InvalidRequest","message":"Invalid app.bsky.feed.post record"}`),
		Limited: func(wait time.Duration) faultproxy.Fate {
			f := status(http.StatusTooManyRequests, `{"error":"RateLimitExceeded","message":"Rate Limit Exceeded"}`)
			f.Header = http.Header{"Ratelimit-Remaining": {"0"}, "Ratelimit-Reset": {fmt.Sprint(time.Now().Add(wait).Unix() + 1)}}
			return f
		},
	}
}

func basic(user, password string) *connectionsv1.Credential {
	return &connectionsv1.Credential{Kind: &connectionsv1.Credential_Basic{Basic: &connectionsv1.BasicAuth{Username: user, Password: password}}}
}

// blueskyWorld is a world with one account on a real server.
func blueskyWorld(t *testing.T, server *pds.Server) (*platforms.World, *pds.Account) {
	t.Helper()
	account := server.Account(t)
	return platforms.NewWorld(t, blueskyOf(t, server.URL, account)), account
}

func postOf(p *fireoncev1.SocialPost) *fireoncev1.Payload {
	return &fireoncev1.Payload{Kind: &fireoncev1.Payload_SocialPost{SocialPost: p}}
}

// What is particular about Bluesky, at a real personal data server.
func TestBlueskyPosts(t *testing.T) {
	t.Parallel()
	server := pds.Start(t)
	for name, test := range map[string]func(*testing.T, *pds.Server){
		"the whole record":                       testBlueskyRecord,
		"a thread":                               testBlueskyThread,
		"a reply whose answer is lost":           testBlueskyReplyLost,
		"a reply to nothing":                     testBlueskyReplyToNothing,
		"the server ends the session":            testBlueskySessionOver,
		"the app password is taken back":         testBlueskyRevoked,
		"an account is the same under all names": testBlueskyIdentity,
		"a post that was edited meanwhile":       testBlueskyEdited,
		"another account's password meanwhile":   testBlueskyOtherAccount,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, server)
		})
	}
}

// The server checks the record against its lexicon, and has it as it was meant.
func testBlueskyRecord(t *testing.T, server *pds.Server) {
	w, account := blueskyWorld(t, server)
	first := w.UntilState(w.Submit("first", postOf(&fireoncev1.SocialPost{Text: "quoted"})), job.Succeeded)
	quoted := account.Posts(t)[0]
	if first.Effect.ExternalID != quoted.URI || !strings.HasPrefix(first.Effect.ExternalURL, "https://bsky.app/profile/"+account.DID+"/post/") {
		t.Fatalf("effect %+v, the server has %s", first.Effect, quoted.URI)
	}
	const text = "Grüße 👩‍👩‍👧 https://example.org/a#b, #köln"
	s := w.UntilState(w.Submit("second", postOf(&fireoncev1.SocialPost{
		Text: text, Language: "de-AT",
		PlatformOptions: &fireoncev1.SocialPost_Bluesky{Bluesky: &fireoncev1.BlueskyOptions{
			QuoteUri: quoted.URI, QuoteCid: quoted.CID, SelfLabels: []string{"graphic-media"},
		}},
	})), job.Succeeded)
	var got map[string]any
	for _, p := range account.Posts(t) {
		if p.URI == s.Effect.ExternalID {
			got = p.Record
		}
	}
	if got["text"] != text || got["createdAt"] != s.ScheduleTime.UTC().Truncate(time.Millisecond).Format("2006-01-02T15:04:05.000Z") {
		t.Errorf("text %q, created %v; scheduled for %v", got["text"], got["createdAt"], s.ScheduleTime)
	}
	if facets, _ := got["facets"].([]any); len(facets) != 2 {
		t.Errorf("facets %v", got["facets"])
	}
	for _, part := range []string{quoted.CID, "graphic-media", "de-AT"} {
		if !strings.Contains(asJSON(t, got), part) {
			t.Errorf("no %q in %v", part, got)
		}
	}
}

// A reply to a reply names the thread's beginning.
func testBlueskyThread(t *testing.T, server *pds.Server) {
	w, account := blueskyWorld(t, server)
	var uris []string
	for i, text := range []string{"one", "two", "three"} {
		p := &fireoncev1.SocialPost{Text: text}
		if i > 0 {
			p.ReplyToId = uris[i-1]
		}
		uris = append(uris, w.UntilState(w.Submit(text, postOf(p)), job.Succeeded).Effect.ExternalID)
	}
	for _, p := range account.Posts(t) {
		if p.Text() != "three" {
			continue
		}
		reply, _ := p.Record["reply"].(map[string]any)
		root, _ := reply["root"].(map[string]any)
		parent, _ := reply["parent"].(map[string]any)
		if root["uri"] != uris[0] || parent["uri"] != uris[1] {
			t.Errorf("reply %v, want root %s, parent %s", reply, uris[0], uris[1])
		}
	}
}

// The post that is answered changes between two attempts, so the replay is another
// record; the server refuses it, and the connector finds that it is there.
func testBlueskyReplyLost(t *testing.T, server *pds.Server) {
	w, account := blueskyWorld(t, server)
	parent := w.UntilState(w.Submit("parent", postOf(&fireoncev1.SocialPost{Text: "parent"})), job.Succeeded).Effect.ExternalID
	key := parent[strings.LastIndex(parent, "/")+1:]
	commits := 0
	w.Proxy.Plan(func(r faultproxy.Request) faultproxy.Fate {
		switch {
		case strings.HasSuffix(r.Path, "/com.atproto.repo.putRecord"):
			if commits++; commits == 1 {
				return faultproxy.Fate{Fault: faultproxy.DropAfter}
			}
		case commits == 1: // what the second attempt reads before it
			account.Put(t, key, edited("parent, edited"))
		}
		return faultproxy.Fate{}
	})
	id := w.Submit("reply", postOf(&fireoncev1.SocialPost{Text: "reply", ReplyToId: parent}))
	s := w.UntilState(id, job.Succeeded)
	replies := 0
	for _, p := range account.Posts(t) {
		if p.Text() == "reply" {
			replies++
			if p.URI != s.Effect.ExternalID {
				t.Errorf("bound to %s, the server has %s", s.Effect.ExternalID, p.URI)
			}
		}
	}
	if replies != 1 || s.Attempt != 2 {
		t.Errorf("%d replies after %d attempts\n%s", replies, s.Attempt, w.Story(id))
	}
}

func testBlueskyReplyToNothing(t *testing.T, server *pds.Server) {
	w, account := blueskyWorld(t, server)
	id := w.Submit("reply", postOf(&fireoncev1.SocialPost{Text: "reply", ReplyToId: "at://" + account.DID + "/app.bsky.feed.post/3kabcdefghijk"}))
	s := w.UntilState(id, job.Failed)
	if !strings.Contains(s.LastError.Message, "replied to is not there") || s.Attempt != 0 || len(account.Posts(t)) != 0 {
		t.Errorf("%+v after %d attempts, %d posts", s.LastError, s.Attempt, len(account.Posts(t)))
	}
}

// A session that ended is renewed; the password holds, so the account does not.
func testBlueskySessionOver(t *testing.T, server *pds.Server) {
	w, account := blueskyWorld(t, server)
	w.UntilState(w.Submit("before", postOf(&fireoncev1.SocialPost{Text: "before"})), job.Succeeded)
	over := 0
	w.Proxy.Plan(func(r faultproxy.Request) faultproxy.Fate {
		if over++; over > 1 {
			return faultproxy.Fate{}
		}
		return status(http.StatusBadRequest, `{"error":"ExpiredToken","message":"Token has expired"}`)
	})
	id := w.Submit("after", postOf(&fireoncev1.SocialPost{Text: "after"}))
	s := w.UntilState(id, job.Succeeded)
	conn, err := w.Store.Connection(t.Context(), store.Ref{Project: w.Connection.Project, ID: w.Connection.ID})
	if err != nil || !conn.AuthHoldAt.IsZero() {
		t.Errorf("the connection is held: %+v, %v", conn, err)
	}
	if posts := account.Posts(t); len(posts) != 2 || s.Attempt != 2 {
		t.Errorf("%d posts, %d attempts\n%s", len(posts), s.Attempt, w.Story(id))
	}
}

// A password that the owner took back holds the connection at the next sign-in.
func testBlueskyRevoked(t *testing.T, server *pds.Server) {
	account := server.Account(t)
	account.RevokeAppPassword(t, "first")
	w := platforms.NewWorld(t, blueskyOf(t, server.URL, account))
	id := w.Submit("one", postOf(&fireoncev1.SocialPost{Text: "one"}))
	s := w.Until(id, "held", func(s job.Snapshot) bool { return s.Blocked != "" && !s.State.InFlight() })
	if !strings.Contains(s.Blocked, "Reconnect this Bluesky account") || strings.Contains(s.Blocked, account.Password) || s.Attempt != 0 {
		t.Errorf("blocked %q after %d attempts", s.Blocked, s.Attempt)
	}
}

func testBlueskyIdentity(t *testing.T, server *pds.Server) {
	account := server.Account(t)
	c := bluesky.New(bluesky.Config{Sender: transport.NewSender(transport.Config{Egress: transport.NewEgress(netip.MustParsePrefix("127.0.0.0/8"))})})
	test := func(user, password string) (connector.Tested, error) {
		return c.Test(t.Context(), connector.Opening{
			Settings:   encoded(t, &connectionsv1.BlueskySettings{BaseUrl: server.URL}),
			Credential: connector.Credential{Version: 1, Data: encoded(t, basic(user, password))},
		})
	}
	before, err := test("@"+account.Handle, account.Password)
	if err != nil || before.Identity != account.DID || !strings.Contains(before.Detail, account.Handle) {
		t.Fatalf("%+v, %v", before, err)
	}
	account.Rename(t, "renamed-"+account.Handle)
	after, err := test(account.Handle, account.Password)
	if err != nil || after.Identity != before.Identity || !strings.Contains(after.Detail, account.Handle) {
		t.Errorf("%+v, %v; before %+v", after, err, before)
	}
	byMail, err := test("ada@example.org", "wrong-pass-word-here")
	var refusal *connector.Refusal
	if !errors.As(err, &refusal) || refusal.Kind != job.FailAuth {
		t.Errorf("a wrong password: %+v, %v", byMail, err)
	}
}

// Whether a record at our key is our post cannot be found out any more: a person decides.
func testBlueskyEdited(t *testing.T, server *pds.Server) {
	w, account := blueskyWorld(t, server)
	commits := 0
	w.Proxy.Plan(func(r faultproxy.Request) faultproxy.Fate {
		if !strings.HasSuffix(r.Path, "/com.atproto.repo.putRecord") {
			return faultproxy.Fate{}
		}
		switch commits++; commits {
		case 1:
			return faultproxy.Fate{Fault: faultproxy.DropAfter}
		case 2:
			uri := account.Posts(t)[0].URI
			account.Put(t, uri[strings.LastIndex(uri, "/")+1:], edited("as edited"))
		}
		return faultproxy.Fate{} // further repeats may come as the test ends
	})
	id := w.Submit("one", postOf(&fireoncev1.SocialPost{Text: "as written"}))
	w.Until(id, "looked at again", func(s job.Snapshot) bool { return s.Attempt > 1 && s.State == job.Ambiguous })
	if posts := account.Posts(t); len(posts) != 1 || posts[0].Text() != "as edited" {
		t.Errorf("the server has %v", posts)
	}
	if s := w.Job(id); s.State.Terminal() {
		t.Errorf("the job is %s\n%s", s.State, w.Story(id))
	}
}

// A repeat is harmless in the account's own repository only: with the password of
// another account the outcome stays open, and nothing is posted there.
func testBlueskyOtherAccount(t *testing.T, server *pds.Server) {
	w, account := blueskyWorld(t, server)
	other := server.Account(t)
	// The password changes while the first request is under way: whatever looks at its
	// outcome has the other one.
	arrived, changed := make(chan struct{}), make(chan struct{})
	release := sync.OnceFunc(func() { close(changed) })
	defer release()
	var first sync.Once
	w.Proxy.Plan(func(r faultproxy.Request) (f faultproxy.Fate) {
		if strings.HasSuffix(r.Path, "/com.atproto.repo.putRecord") {
			first.Do(func() {
				close(arrived)
				<-changed
				f.Fault = faultproxy.DropAfter
			})
		}
		return f
	})
	id := w.Submit("one", postOf(&fireoncev1.SocialPost{Text: "once"}))
	w.Until(id, "sent", func(job.Snapshot) bool {
		select {
		case <-arrived:
			return true
		default:
			return false
		}
	})
	w.Rotate(basic(other.Handle, other.Password))
	release()
	s := w.Until(id, "held", func(s job.Snapshot) bool { return strings.Contains(s.Blocked, "reconnect the account "+account.DID) })
	if s.State != job.Ambiguous || len(other.Posts(t)) != 0 {
		t.Errorf("%s, the other account has %v\n%s", s.State, other.Posts(t), w.Story(id))
	}
	w.Rotate(basic(account.Handle, account.AppPassword(t, "third")))
	s = w.UntilState(id, job.Succeeded)
	if posts := account.Posts(t); len(posts) != 1 || s.Effect.ExternalID != posts[0].URI || len(other.Posts(t)) != 0 {
		t.Errorf("bound to %q, the server has %v\n%s", s.Effect.ExternalID, posts, w.Story(id))
	}
}

func edited(text string) map[string]any {
	return map[string]any{"$type": "app.bsky.feed.post", "text": text, "createdAt": "2026-11-21T08:00:00.000Z"}
}

func asJSON(t *testing.T, v any) string {
	t.Helper()
	raw, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}
