package engine_test

import (
	"fmt"
	"net/http"
	"net/netip"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/fireonce/fireonce/clients/go/connectionsv1"
	"github.com/fireonce/fireonce/clients/go/fireoncev1"
	"github.com/fireonce/fireonce/internal/connector"
	"github.com/fireonce/fireonce/internal/connector/feed"
	"github.com/fireonce/fireonce/internal/connector/feed/feedtest"
	"github.com/fireonce/fireonce/internal/connector/transport"
	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/store"
)

// overFeed sets up a feed platform on loopback, in real time: a fence of
// three seconds, no read lag. Such tests mostly wait, so they run in parallel.
func overFeed(t *testing.T, plan func(feedtest.Request) feedtest.Answer) (*world, *feedtest.Platform) {
	t.Helper()
	t.Parallel()
	p, err := feedtest.Start(feedtest.Options{Plan: plan})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.Close() })
	w := newWorld(t)
	t.Cleanup(func() {
		w.stop()
		if err := w.store.Close(); err != nil {
			t.Error(err)
		}
	})
	w.config.Connectors, err = connector.NewRegistry(feed.New(feed.Config{Sender: transport.NewSender(
		transport.Config{Egress: transport.NewEgress(netip.MustParsePrefix("127.0.0.0/8"))})}))
	if err != nil {
		t.Fatal(err)
	}
	w.config.Grace, w.config.Poll = 2*time.Second, 50*time.Millisecond
	settings, err := proto.Marshal(&connectionsv1.FeedSettings{BaseUrl: p.URL(), ReadLag: durationpb.New(0)})
	if err != nil {
		t.Fatal(err)
	}
	credential, err := proto.Marshal(&connectionsv1.Credential{Kind: &connectionsv1.Credential_BearerToken{BearerToken: &connectionsv1.BearerToken{Token: "token"}}})
	if err != nil {
		t.Fatal(err)
	}
	w.config.Open = func(_ store.Connection, s store.Sealed) (connector.Credential, error) {
		return connector.Credential{Version: s.Version, Data: credential}, nil
	}
	w.conn, _, err = w.store.CreateConnection(t.Context(), store.NewConnection{
		Key: "feed", Connection: store.Connection{
			ID: newID(), Project: "default", Connector: feed.Name, Class: job.Observable, Settings: settings, CredentialVersion: 1,
		},
		Sealed: &store.Sealed{KeyID: "key", Data: []byte("sealed"), Fingerprint: "fp"},
	})
	if err != nil {
		t.Fatal(err)
	}
	return w, p
}

// posts makes the job post a text.
func posts(text string) change {
	return func(n *store.NewJob) {
		b, err := proto.Marshal(&fireoncev1.Payload{Kind: &fireoncev1.Payload_SocialPost{SocialPost: &fireoncev1.SocialPost{Text: text}}})
		if err != nil {
			panic(err)
		}
		n.Spec.PayloadKind, n.Spec.Payload = feed.PayloadKind, b
		n.Spec.Retry = job.RetryPolicy{MaxAttempts: 20, AttemptTimeout: time.Second, MinBackoff: 10 * time.Millisecond}
	}
}

// The engine, a database and the feed connector over real HTTP: whatever the
// platform does with the first request, each post is there once, and each of
// two identical ones too.
func TestPostsToAFeedAreThereOnce(t *testing.T) {
	fates := []feedtest.Answer{
		feedtest.Reply, feedtest.Drop, feedtest.DropSilently, feedtest.Fail, feedtest.Reset,
		feedtest.Silence, feedtest.CommitFail, feedtest.Truncate, feedtest.Nameless,
	}
	texts := make(map[string]feedtest.Answer)
	for i, fate := range fates {
		texts[fmt.Sprint("text ", i)] = fate
	}
	w, p := overFeed(t, func(r feedtest.Request) feedtest.Answer {
		switch {
		case r.Method != http.MethodPost || r.Number > 1:
			return feedtest.Reply
		case r.Text == "twin":
			return feedtest.Reset
		default:
			return texts[r.Text]
		}
	})
	w.start()
	jobs := make(map[job.ID]string)
	for text := range texts {
		jobs[w.submit(text, posts(text))] = text
	}
	jobs[w.submit("one", posts("twin"))] = "twin"
	jobs[w.submit("two", posts("twin"))] = "twin"
	made := make(map[string]string)
	for id := range jobs {
		w.until(id, job.Succeeded, time.Minute)
	}
	for _, post := range p.Posts() {
		made[post.ID] = post.Text
	}
	for id, text := range jobs {
		s := w.job(id)
		if made[s.Effect.ExternalID] != text {
			t.Errorf("%q (fate %d) is bound to %q, which says %q\n%s",
				text, texts[text], s.Effect.ExternalID, made[s.Effect.ExternalID], w.story(id))
		}
		delete(made, s.Effect.ExternalID) // two jobs, two posts
		want := 1
		if text == "twin" {
			want = 2
		}
		if n := p.Effects(text); n != want {
			t.Errorf("%q (fate %d) is there %d times\n%s", text, texts[text], n, w.story(id))
		}
	}
}
