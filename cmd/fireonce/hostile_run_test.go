package main

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/fieldmaskpb"

	"github.com/fireonce/fireonce/clients/go/connectionsv1"
	"github.com/fireonce/fireonce/clients/go/fireoncev1"
	"github.com/fireonce/fireonce/internal/connector"
	"github.com/fireonce/fireonce/internal/connector/bluesky"
	"github.com/fireonce/fireonce/internal/connector/builtin"
	"github.com/fireonce/fireonce/internal/connector/feed"
	"github.com/fireonce/fireonce/internal/connector/kit"
	"github.com/fireonce/fireonce/internal/connector/mastodon"
	"github.com/fireonce/fireonce/internal/connector/remote"
	"github.com/fireonce/fireonce/internal/connector/resend"
	"github.com/fireonce/fireonce/internal/connector/slack"
	"github.com/fireonce/fireonce/internal/connector/smtp"
	"github.com/fireonce/fireonce/internal/connector/tiktok"
	"github.com/fireonce/fireonce/internal/connector/transport"
	"github.com/fireonce/fireonce/internal/connector/x"
	"github.com/fireonce/fireonce/internal/engine"
	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/internal/oauth"
	"github.com/fireonce/fireonce/internal/proof/memdir"
	"github.com/fireonce/fireonce/internal/proof/pgtest"
	"github.com/fireonce/fireonce/internal/seal"
	"github.com/fireonce/fireonce/internal/vault"
	"github.com/fireonce/fireonce/server"
	"github.com/fireonce/fireonce/store"
	"github.com/fireonce/fireonce/store/postgres"
	"github.com/fireonce/fireonce/store/sqlite"

	"github.com/fireonce/fireonce/cmd/fireonce/internal/client"
	"github.com/fireonce/fireonce/cmd/fireonce/internal/follow"
)

// TestNoSecretOfPlatformsGetsOut does what TestNoSecretGetsOut does for the credentials of every
// connector, for logins and for renewals. The platforms are fakes of this test, so it assembles
// the parts of a server itself: no flag sets the addresses of platforms.
func TestNoSecretOfPlatformsGetsOut(t *testing.T) {
	long(t)
	onEach(t, func(t *testing.T, d deployment) {
		t.Parallel()
		s := newStage(t, d)
		s.connectPlatforms()
		s.logIn()
		s.change()
		s.settleJobs()
		s.end()
		s.searchMark()
	})
}

// stage is a server in this process, among hostile platforms.
type stage struct {
	*spill  // without its targets and its binary
	hostile *hostile
	roots   struct{ login, mail int } // ports of relays
	log     lockedBuffer
	store   store.Store
	tokens  *oauth.Client
	renewer *oauth.Renewer
	stop    func()
	// origin is the connector and the way of each connection.
	origin map[string][2]string
}

// lockedBuffer keeps a log.
type lockedBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

// Write implements io.Writer.
func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

func newID() job.ID { return job.ID(uuid.Must(uuid.NewV7())) }

func newStage(t *testing.T, d deployment) *stage {
	t.Helper()
	s := &stage{
		spill:   &spill{t: t, on: d, dir: memdir.New(t), conns: map[string]*connectionsv1.Connection{}, places: map[string]string{}},
		hostile: startHostile(t), origin: map[string][2]string{},
	}
	s.roots.login, s.roots.mail = s.hostile.relay(t, "login"), s.hostile.relay(t, "mail")
	var err error
	if d == onPostgres {
		cluster := pgtest.Shared(t)
		database := cluster.NewDatabase(t)
		s.dump = func() map[string]string { return map[string]string{"pg_dump": cluster.DumpText(t, database)} }
		s.store, err = postgres.Open(t.Context(), postgres.Options{URL: cluster.URL(database), Migrate: true})
	} else {
		path := filepath.Join(s.dir, "test.db")
		s.dump = func() map[string]string { return s.files(path) }
		s.store, err = sqlite.Open(t.Context(), sqlite.Options{Path: path, Migrate: true})
	}
	s.ok(err)
	s.run()
	return s
}

func (s *stage) ok(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
}

// run assembles a server and starts it.
func (s *stage) run() {
	t, local := s.t, netip.MustParsePrefix("127.0.0.0/8")
	key := bytes.Repeat([]byte(hostileMark), 2)[:32]
	keys, err := vault.New(key)
	s.ok(err)
	log := slog.New(slog.NewJSONHandler(&s.log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	egress := transport.NewEgress(local)
	sender := transport.NewSender(transport.Config{Egress: egress, RootCAs: s.hostile.roots})
	media := kit.NewMedia(kit.MediaConfig{Egress: egress, Dir: t.TempDir()})
	registry, own := s.connectors(sender, media)
	apps, err := oauth.LoadApps(s.apps(), builtin.Platforms, true)
	s.ok(err)
	s.tokens = oauth.NewClient(egress, nil)
	s.renewer, err = oauth.NewRenewer(oauth.Config{Apps: apps, Client: s.tokens, Store: s.store, Vault: keys, Log: log, NewID: newID})
	s.ok(err)
	eng, err := engine.New(engine.Config{
		Store: s.store, Connectors: registry, Refresh: s.renewer, Log: log, Worker: "test", NewID: newID, Grace: time.Second,
		Open: func(c store.Connection, sealed store.Sealed) (connector.Credential, error) {
			data, err := seal.Open(keys, c, sealed)
			return connector.Credential{Version: sealed.Version, Data: data}, err
		},
	})
	s.ok(err)
	meta, err := s.store.Meta(t.Context())
	s.ok(err)
	api, err := server.New(server.Config{
		Store: s.store, StoreID: meta.StoreID, Creator: eng.DirectStart(s.store), Connectors: registry, Vault: keys, Media: media, OAuthApps: apps, OAuthClient: s.tokens,
		Refresher: s.renewer, Log: log, APIKey: hostileMark, NewID: newID,
	})
	s.ok(err)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	s.ok(err)
	web := api.HTTPServer("")
	served, ran := make(chan error, 1), make(chan error, 1)
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	s.ok(own.Load(ctx))
	go func() { served <- web.Serve(listener) }()
	go func() { ran <- eng.Run(ctx) }()
	stopped := false
	s.stop = func() {
		if stopped {
			return
		}
		stopped = true
		cancel()
		s.ok(<-ran)
		s.ok(api.Shutdown(context.Background()))
		_ = web.Close()
		<-served
		s.ok(s.renewer.Close(context.Background()))
		sender.Close()
		s.ok(s.store.Close())
	}
	t.Cleanup(s.stop)
	s.api, err = client.Dial("http://"+listener.Addr().String(), hostileMark)
	s.ok(err)
}

// connectors returns the connectors whose platforms are hostile, and a remote one.
func (s *stage) connectors(sender *transport.Sender, media *kit.Media) (*connector.Registry, *remote.Connector) {
	base := s.hostile.URL
	own, err := remote.New(remote.Config{Name: "own", URL: base, Token: secretOf("token", "500"), Sender: sender})
	s.ok(err)
	mails, err := resend.New(resend.Config{Sender: sender, BaseURL: base})
	s.ok(err)
	registry, err := connector.NewRegistry(
		feed.New(feed.Config{Sender: sender}),
		mastodon.New(mastodon.Config{Sender: sender, Media: media}),
		bluesky.New(bluesky.Config{Sender: sender, Media: media}),
		x.New(x.Config{Sender: sender, Media: media, BaseURL: base}),
		tiktok.New(tiktok.Config{Sender: sender, Media: media, BaseURL: base, ReadLag: -1, StepTime: 2 * time.Second, UploadLife: -1}),
		slack.New(slack.Config{Sender: sender, BaseURL: base}),
		smtp.New(smtp.Config{Sender: sender, BusyWait: time.Second}), mails, own,
	)
	s.ok(err)
	return registry, own
}

// apps writes a file of apps, one for each way in which a login may fail.
func (s *stage) apps() string {
	var apps []string
	for _, way := range append([]string{"s500", "s401"}, ways...) {
		apps = append(apps, fmt.Sprintf(`{"name": "a%s", "connector": "x", "client_id": "me", "client_secret": %q, "auth_style": "body",
			"authorization_url": "%s/login", "token_url": "%s/token", "redirect_urls": [%q]}`,
			way, secretOf("client", way), s.hostile.URL, s.hostile.URL, s.redirect(way)))
	}
	path := filepath.Join(s.dir, "apps.json")
	text := `{"public_url": "http://127.0.0.1:8080", "apps": [` + strings.Join(apps, ",") + `]}`
	s.ok(os.WriteFile(path, []byte(text), 0o600))
	return path
}

// redirect returns the redirect URL of the logins of a way.
func (s *stage) redirect(way string) string { return "http://127.0.0.1:1/back/" + way }

func bearerOf(secret string) *connectionsv1.Credential {
	return &connectionsv1.Credential{Kind: &connectionsv1.Credential_BearerToken{BearerToken: &connectionsv1.BearerToken{Token: secret}}}
}

func basicOf(secret string) *connectionsv1.Credential {
	return &connectionsv1.Credential{Kind: &connectionsv1.Credential_Basic{Basic: &connectionsv1.BasicAuth{Username: "ada.example.org", Password: secret}}}
}

// credentialOf returns a credential for a connector.
func credentialOf(connector, secret string) *connectionsv1.Credential {
	if connector == "bluesky" || connector == "smtp" {
		return basicOf(secret)
	}
	return bearerOf(secret)
}

// settingsOf returns the settings of a connection to a hostile platform.
func (s *stage) settingsOf(name, way string) *connectionsv1.Connection {
	c := &connectionsv1.Connection{Connector: name, DisplayName: way}
	switch base := s.hostile.URL; name {
	case "feed":
		c.Settings = &connectionsv1.Connection_Feed{Feed: &connectionsv1.FeedSettings{BaseUrl: base}}
	case "mastodon":
		c.Settings = &connectionsv1.Connection_Mastodon{Mastodon: &connectionsv1.MastodonSettings{BaseUrl: base}}
	case "bluesky":
		c.Settings = &connectionsv1.Connection_Bluesky{Bluesky: &connectionsv1.BlueskySettings{BaseUrl: base}}
	case "x":
		c.Settings = &connectionsv1.Connection_X{X: &connectionsv1.XSettings{}}
	case "tiktok":
		c.Settings = &connectionsv1.Connection_Tiktok{Tiktok: &connectionsv1.TikTokSettings{}}
	case "slack":
		c.Settings = &connectionsv1.Connection_Slack{Slack: &connectionsv1.SlackSettings{Channel: "C0123456789"}}
	case "smtp":
		port := s.roots.mail
		if way == "login" {
			port = s.roots.login
		}
		c.Settings = &connectionsv1.Connection_Smtp{Smtp: &connectionsv1.SmtpSettings{
			Host: "127.0.0.1", Port: int32(port), Security: connectionsv1.SmtpSettings_SECURITY_TLS,
		}}
	}
	return c
}

// payloadFor returns a payload that a connector can send.
func (s *stage) payloadFor(name string) *fireoncev1.Payload {
	switch name {
	case "smtp", "resend":
		return &fireoncev1.Payload{Kind: &fireoncev1.Payload_Email{Email: &fireoncev1.Email{
			Sender: "Ada <ada@example.org>", To: []string{"bob@example.net"}, Subject: "Hello", TextBody: inTheOpen,
		}}}
	case "tiktok":
		return &fireoncev1.Payload{Kind: &fireoncev1.Payload_SocialPost{SocialPost: &fireoncev1.SocialPost{
			Text: inTheOpen, Media: []*fireoncev1.MediaRef{{Url: s.hostile.films.URL + "/film.mp4"}},
			PlatformOptions: &fireoncev1.SocialPost_Tiktok{Tiktok: &fireoncev1.TikTokOptions{
				Privacy: fireoncev1.TikTokOptions_PRIVACY_PUBLIC_TO_EVERYONE,
			}},
		}}}
	default:
		return postPayload(inTheOpen)
	}
}

// connectPlatforms makes a connection of every connector for every way.
func (s *stage) connectPlatforms() {
	all := map[string][]string{"smtp": {"login", "mail"}, "own": {"500"}, "bluesky": ways}
	for _, way := range ways {
		all["bluesky"] = append(all["bluesky"], "s"+way)
	}
	for _, name := range []string{"feed", "mastodon", "x", "tiktok", "slack", "resend"} {
		all[name] = ways
	}
	for _, name := range []string{"mastodon", "x", "tiktok", "slack"} {
		all[name] = append([]string{"s400", "s401", "s422", "s500", "splain"}, ways...)
	}
	for name, list := range all {
		for _, way := range list {
			resp, err := s.api.Connections.CreateConnection(waiting(s.t), &connectionsv1.CreateConnectionRequest{
				IdempotencyKey: name + "-" + way, Connection: s.settingsOf(name, way), Credential: credentialOf(name, secretOf(name, way)),
			})
			s.answered("CreateConnection", resp, err)
			if err != nil {
				s.t.Fatalf("%s, %s: %v", name, way, err)
			}
			s.keep(resp.GetConnection(), name, way)
		}
	}
}

func (s *stage) keep(c *connectionsv1.Connection, name, way string) {
	s.conns[c.GetConnectionId()] = c
	s.origin[c.GetConnectionId()] = [2]string{name, way}
}

// logIn makes logins that fail in every way, and some that succeed with tokens that expire
// immediately and cannot be renewed.
func (s *stage) logIn() {
	ctx := waiting(s.t)
	for _, way := range append([]string{"s500", "s401"}, ways...) {
		begun, err := s.api.Connections.StartOAuth(ctx, &connectionsv1.StartOAuthRequest{
			App: "a" + way, RedirectUrl: s.redirect(way), Target: &connectionsv1.StartOAuthRequest_Create{Create: &connectionsv1.CreateConnectionRequest{
				IdempotencyKey: "login-" + way, Connection: s.settingsOf("x", way),
			}},
		})
		s.answered("StartOAuth", begun, err)
		s.ok(err)
		for name, text := range s.dump() { // while the database has the verifier
			s.said(name+" during logins", text)
		}
		done, err := s.api.Connections.CompleteOAuth(ctx, &connectionsv1.CompleteOAuthRequest{
			State: begun.GetState(), Code: secretOf("code", way), RedirectUrl: s.redirect(way),
		})
		s.answered("CompleteOAuth", done, err)
		switch works := way[0] == 's'; {
		case works != (err == nil):
			s.t.Errorf("login %s: %v", way, err)
		case works:
			s.keep(done.GetConnection(), "x", way)
		}
	}
	if len(s.hostile.verifiers) != len(ways)+2 {
		s.t.Errorf("%d verifiers were sent", len(s.hostile.verifiers))
	}
	for i, v := range s.hostile.verifiers {
		s.plant(fmt.Sprint("verifier ", i), v)
	}
}

// change makes every call that may contact a connection's platform, and sends a job.
func (s *stage) change() {
	ctx := waiting(s.t)
	for id, of := range s.origin {
		name, way := of[0], of[1]
		test, err := s.api.Connections.TestConnection(ctx, &connectionsv1.TestConnectionRequest{Connection: &connectionsv1.TestConnectionRequest_ConnectionId{ConnectionId: id}})
		s.answered("TestConnection", test, err)
		updated, err := s.api.Connections.UpdateConnection(ctx, &connectionsv1.UpdateConnectionRequest{
			Connection: &connectionsv1.UpdateConnectionRequest_ConnectionId{ConnectionId: id}, UpdateMask: &fieldmaskpb.FieldMask{Paths: []string{"display_name"}}, DisplayName: "updated",
		})
		s.answered("UpdateConnection", updated, err)
		s.ok(err)
		if s.conns[id].GetCredentialExpireTime() == nil { // tokens of a login are renewed
			for _, cred := range []*connectionsv1.Credential{
				credentialOf(name, secretOf(name, way)+"rotated"), basicOf(hostileMark + "\n"), {Headers: []*connectionsv1.SecretHeader{{Name: "Host", Value: hostileMark}}},
			} {
				rotated, err := s.api.Connections.RotateCredential(ctx, &connectionsv1.RotateCredentialRequest{Connection: &connectionsv1.RotateCredentialRequest_ConnectionId{ConnectionId: id}, Credential: cred})
				s.answered("RotateCredential", rotated, err)
			}
		}
		s.schedule(id, name)
	}
}

func (s *stage) schedule(id, name string) {
	resp, err := s.api.Jobs.ScheduleJob(waiting(s.t), &fireoncev1.ScheduleJobRequest{
		IdempotencyKey: "to-" + id, Connection: &fireoncev1.ScheduleJobRequest_ConnectionId{ConnectionId: id}, Payload: s.payloadFor(name), StartWindow: durationpb.New(4 * time.Second),
		Delivery:       fireoncev1.Delivery_DELIVERY_AT_MOST_ONCE,
		AttemptTimeout: durationpb.New(time.Second),
		RetryPolicy: &fireoncev1.RetryPolicy{
			MaxAttempts: 2,
			MinBackoff:  durationpb.New(100 * time.Millisecond), MaxBackoff: durationpb.New(time.Second),
			KeepTrying: durationpb.New(4 * time.Second),
		},
	})
	s.answered("ScheduleJob", resp, err)
	if err != nil {
		s.t.Fatalf("%v: %v", s.origin[id], err)
	}
	s.jobs = append(s.jobs, resp.GetJob().GetJobId())
}

// settleJobs waits until every job is at rest, and reads everything about them.
func (s *stage) settleJobs() {
	ctx, left := waiting(s.t), make(map[string]bool)
	for _, id := range s.jobs {
		left[id] = true
	}
	// Looks continue for a long time: that they have begun is enough here.
	err := follow.Events(ctx, s.api.Jobs, follow.Options{Beginning: true, IncludeJob: true}, func(e *fireoncev1.JobEvent) error {
		s.answered("StreamJobEvents", e, nil)
		if c := e.GetJobChanged(); atRest(c.GetNewState()) || c.GetNewState() == fireoncev1.JobState_JOB_STATE_AMBIGUOUS {
			delete(left, c.GetJobId())
		}
		if len(left) == 0 {
			return follow.ErrStop
		}
		return nil
	})
	s.ok(err)
	ends := make(map[string]int)
	for _, id := range s.jobs {
		j, err := s.api.Jobs.GetJob(ctx, &fireoncev1.GetJobRequest{Job: &fireoncev1.GetJobRequest_JobId{JobId: id}})
		s.ok(err)
		s.answered("GetJob", j, nil)
		ends[s.origin[j.GetJob().GetConnectionId()][0]+" "+strings.TrimPrefix(j.GetJob().GetState().String(), "JOB_STATE_")]++
		history, err := s.api.Jobs.ListJobAttempts(ctx, &fireoncev1.ListJobAttemptsRequest{Job: &fireoncev1.ListJobAttemptsRequest_JobId{JobId: id}})
		s.ok(err)
		s.answered("ListJobAttempts", history, nil)
	}
	s.t.Logf("%d jobs: %v", len(s.jobs), ends)
	conns, err := s.api.Connections.ListConnections(ctx, &connectionsv1.ListConnectionsRequest{PageSize: 500})
	s.ok(err)
	s.answered("ListConnections", conns, nil)
}

// end stops the server and reads its remaining output.
func (s *stage) end() {
	for name, text := range s.dump() {
		s.said(name+" while it serves", text)
	}
	s.stop()
	for name, text := range s.dump() {
		s.said(name+" afterwards", text)
	}
	s.said("the server's log", s.log.String())
}

// searchMark searches every output for the text that is in every secret.
func (s *stage) searchMark() {
	sent := s.hostile.sent()
	for _, name := range []string{"feed", "mastodon", "bluesky", "x", "tiktok", "slack", "resend", "smtp", "own", "token", "client", "code", "access", "refresh"} {
		if !strings.Contains(sent, hostileMark+"."+name+".") {
			s.t.Errorf("no platform got the secret of %s: what does this test?", name)
		}
	}
	for _, write := range []string{"/2/tweets\n", "/chat.postMessage\n", "/api/v1/statuses\n", "/v2/post/publish/video/init/\n", "/xrpc/com.atproto.repo.putRecord\n"} {
		if !strings.Contains(sent, write) {
			s.t.Errorf("nothing was sent to %q", write)
		}
	}
	secrets := map[string]string{"marked": hostileMark}
	for name, secret := range s.places {
		if own, found := strings.CutPrefix(name, "\x00"); found {
			secrets[own] = secret
		}
	}
	for where, text := range s.places {
		for name, secret := range secrets {
			if found := leak(secret, text); found != "" && !strings.HasPrefix(where, "\x00") {
				s.t.Errorf("%s: the secret %q is there: %q", where, name, found)
			}
		}
	}
	for _, where := range []string{"GetJob", "the server's log"} {
		if len(s.places[where]) < 1000 {
			s.t.Errorf("%s says nothing", where)
		}
	}
}
