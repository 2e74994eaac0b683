package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"strconv"
	"time"

	"github.com/fireonce/fireonce/clients/go/connectionsv1"
	"github.com/fireonce/fireonce/clients/go/fireoncev1"
	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/internal/proof/chaos/fleet"
	"github.com/fireonce/fireonce/internal/proof/chaos/platform"
	"github.com/fireonce/fireonce/internal/proof/chaos/sites"
)

// The campaign of the platforms: the same faults, in front of the platforms that have a
// connector of their own.

// kind is what a connector makes, and how.
type kind struct {
	name  string // as the report has it
	conn  string // the connection that it goes through
	class job.Class
	// blind is set if an outcome may be impossible to look up for good: many are left to a
	// person, or stay in doubt for hours.
	blind  bool
	policy job.Delivery
	// timeout is an attempt's; zero: attemptTimeout.
	timeout time.Duration
	// replies go to another job's post.
	replies bool
	payload func(subject string, to targets) *fireoncev1.Payload
}

// Connections, beside those that are called as their site.
const (
	connUpload = "tiktok-upload"
	connPull   = "tiktok-pull"
)

var kinds = []kind{
	{name: "mastodon", conn: sites.Mastodon, class: job.Keyed, replies: true, payload: posting("%s")},
	{name: "mastodon without keys", conn: sites.GoToSocial, class: job.Observable, replies: true, payload: posting("%s")},
	{name: "bluesky", conn: sites.Bluesky, class: job.Keyed, timeout: 3 * attemptTimeout, replies: true, payload: cardPost},
	{name: "x posts", conn: sites.X, class: job.Observable, replies: true, payload: posting("%s & more: https://words.example/%%20?a=b")},
	{name: "x messages", conn: sites.X, class: job.Observable, payload: message},
	{name: "tiktok upload", conn: connUpload, class: job.Handle, payload: video},
	{name: "tiktok pull", conn: connPull, class: job.Handle, blind: true, payload: video},
	{name: "slack", conn: sites.Slack, class: job.Observable, replies: true, payload: posting("%s <&> :more:")},
	{name: "smtp", conn: sites.SMTP, class: job.Opaque, policy: job.OnceOrAsk, payload: email},
	{name: "smtp", conn: sites.SMTP, class: job.Opaque, policy: job.AtMostOnce, payload: email},
	{name: "resend", conn: sites.Resend, class: job.Keyed, payload: email},
}

// cardPost is a post with a card of its own: nothing is fetched for it.
func cardPost(subject string, _ targets) *fireoncev1.Payload {
	const link = "https://example.org"
	card := &fireoncev1.BlueskyOptions_Card{Url: link, Title: "for " + subject}
	return social(&fireoncev1.SocialPost{
		Text:            subject + " says #hello to " + link,
		PlatformOptions: &fireoncev1.SocialPost_Bluesky{Bluesky: &fireoncev1.BlueskyOptions{Card: card}},
	})
}

func posting(format string) func(string, targets) *fireoncev1.Payload {
	return func(subject string, _ targets) *fireoncev1.Payload {
		return social(&fireoncev1.SocialPost{Text: fmt.Sprintf(format, subject)})
	}
}

func social(p *fireoncev1.SocialPost) *fireoncev1.Payload {
	return &fireoncev1.Payload{Kind: &fireoncev1.Payload_SocialPost{SocialPost: p}}
}

func message(subject string, _ targets) *fireoncev1.Payload {
	return &fireoncev1.Payload{Kind: &fireoncev1.Payload_DirectMessage{DirectMessage: &fireoncev1.DirectMessage{
		RecipientId: sites.Person, Text: subject,
	}}}
}

func video(subject string, to targets) *fireoncev1.Payload {
	return social(&fireoncev1.SocialPost{
		Text: subject, Media: []*fireoncev1.MediaRef{{Url: sites.Film(to.places[sites.TikTok].Address)}},
		PlatformOptions: &fireoncev1.SocialPost_Tiktok{Tiktok: &fireoncev1.TikTokOptions{
			Privacy: fireoncev1.TikTokOptions_PRIVACY_PUBLIC_TO_EVERYONE,
		}},
	})
}

func email(subject string, _ targets) *fireoncev1.Payload {
	return &fireoncev1.Payload{Kind: &fireoncev1.Payload_Email{Email: &fireoncev1.Email{
		Sender: "Ada <ada@example.org>", To: []string{"bob@example.net"}, Subject: subject, TextBody: "Hello " + subject,
	}}}
}

// shortWindow is how late a job that is looked up may start in a short campaign; else it
// is postWindow. It ends the doubts about what seems to be another job's.
const shortWindow = 2 * time.Minute

// platformSpecOf returns the i-th job of a seed, at one of the platforms that are there.
// Jobs come in pairs: two that have nothing in common, two that say the same on purpose,
// or one and the reply to it.
func platformSpecOf(seed uint64, i int, there []string, window time.Duration) spec {
	pair := rand.New(rand.NewPCG(^seed, uint64(i/2))) //nolint:gosec // repeatable is what it must be
	random := rand.New(rand.NewPCG(seed, uint64(i)))  //nolint:gosec // the same
	list := make([]*kind, 0, len(kinds))
	for n := range kinds {
		if name := kinds[n].conn; slices.Contains(there, name) || name == connUpload || name == connPull {
			list = append(list, &kinds[n])
		}
	}
	k := list[pair.IntN(len(list))]
	s := spec{
		key: fmt.Sprintf("key-%d", i), subject: fmt.Sprintf("subject-%d", i), kind: k, class: k.class, policy: k.policy,
		window: startWindow, after: -1,
	}
	if k.class == job.Observable {
		s.window = window
	}
	if s.policy == 0 {
		s.policy = job.OnceOrAsk
	}
	if random.IntN(4) == 0 {
		s.delay = soonest + time.Duration(random.Int64N(int64(latest-soonest)))
	}
	switch n := pair.IntN(10); {
	case n < 2:
		s.subject = fmt.Sprintf("subject-%d-twin", i/2)
	case n < 4 && k.replies && i%2 == 1:
		s.after, s.window = i-1, window // it waits for that one's success as long as it may
	}
	return s
}

// connectSites makes the connections to the platforms.
func connectSites(ctx context.Context, f *fleet.Fleet, places map[string]platform.Place) (map[string]string, error) {
	out := make(map[string]string)
	for name, c := range connections(places) {
		id, err := createWith(ctx, f, "site-"+name, c, credentialOf(places[siteOf(name)].Credential))
		if err != nil {
			return nil, err
		}
		out[name] = id
	}
	return out, nil
}

// siteOf returns the site of a connection.
func siteOf(conn string) string {
	if conn == connUpload || conn == connPull {
		return sites.TikTok
	}
	return conn
}

func connections(places map[string]platform.Place) map[string]*connectionsv1.Connection {
	out := make(map[string]*connectionsv1.Connection)
	for name, place := range places {
		switch name {
		case sites.TikTok:
			out[connUpload] = tiktok(connectionsv1.TikTokSettings_SOURCE_FILE_UPLOAD)
			out[connPull] = tiktok(connectionsv1.TikTokSettings_SOURCE_PULL_FROM_URL)
		case sites.Mastodon, sites.GoToSocial:
			out[name] = &connectionsv1.Connection{Connector: "mastodon", Settings: &connectionsv1.Connection_Mastodon{
				Mastodon: &connectionsv1.MastodonSettings{BaseUrl: place.Address},
			}}
		case sites.Bluesky:
			out[name] = &connectionsv1.Connection{Connector: "bluesky", Settings: &connectionsv1.Connection_Bluesky{
				Bluesky: &connectionsv1.BlueskySettings{BaseUrl: place.Address},
			}}
		case sites.X:
			out[name] = &connectionsv1.Connection{Connector: "x", Settings: &connectionsv1.Connection_X{X: &connectionsv1.XSettings{}}}
		case sites.Slack:
			out[name] = &connectionsv1.Connection{Connector: "slack", Settings: &connectionsv1.Connection_Slack{
				Slack: &connectionsv1.SlackSettings{Channel: "C1"},
			}}
		case sites.SMTP:
			host, port, _ := net.SplitHostPort(place.Address)
			number, _ := strconv.Atoi(port)
			out[name] = &connectionsv1.Connection{Connector: "smtp", Settings: &connectionsv1.Connection_Smtp{Smtp: &connectionsv1.SmtpSettings{
				Host: host, Port: int32(number), Security: connectionsv1.SmtpSettings_SECURITY_STARTTLS, //nolint:gosec // a port
			}}}
		default:
			out[name] = &connectionsv1.Connection{Connector: name}
		}
	}
	return out
}

func tiktok(source connectionsv1.TikTokSettings_Source) *connectionsv1.Connection {
	return &connectionsv1.Connection{Connector: "tiktok", Settings: &connectionsv1.Connection_Tiktok{
		Tiktok: &connectionsv1.TikTokSettings{Source: source},
	}}
}

func credentialOf(c platform.Credential) *connectionsv1.Credential {
	if c.Token != "" {
		return &connectionsv1.Credential{Kind: &connectionsv1.Credential_BearerToken{BearerToken: &connectionsv1.BearerToken{Token: c.Token}}}
	}
	return &connectionsv1.Credential{Kind: &connectionsv1.Credential_Basic{
		Basic: &connectionsv1.BasicAuth{Username: c.User, Password: c.Password},
	}}
}

// siteFaults are the faults in front of the platforms: an answer in four is lost after
// the effect, and about as many requests go wrong in other ways.
func siteFaults() platform.Faults {
	f := platformFaults()
	f.Rates = platform.Rates{
		platform.Drop: 0.25, platform.ErrorAfter: 0.04, platform.ResetMid: 0.02, platform.Truncate: 0.02, platform.Trickle: 0.005,
		platform.Silence: 0.02, platform.Delay: 0.05, platform.ResetBefore: 0.05, platform.Unavailable: 0.04,
		platform.RateLimit: 0.01, platform.Refuse: 0.003,
	}
	// Fewer looks than elsewhere: each reads many pages, and after several that could not
	// be completed the next one is five minutes away.
	f.Faces, f.Looks = nil, platform.Rates{
		platform.Drop: 0.005, platform.ErrorAfter: 0.002, platform.ResetMid: 0.001, platform.Truncate: 0.002, platform.Trickle: 0.0005,
		platform.Silence: 0.0005, platform.Delay: 0.02, platform.Unavailable: 0.005, platform.RateLimit: 0.001,
	}
	return f
}
