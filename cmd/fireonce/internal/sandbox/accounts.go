package sandbox

import (
	"context"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	fireoncev1 "github.com/fireonce/fireonce/gen/fireonce/v1"

	"github.com/fireonce/fireonce/cmd/fireonce/internal/client"
)

const (
	// token is the access token of every account. The fakes take any.
	token = "sandbox-token"
	// webhookSecret signs webhooks; the README's example has the same.
	webhookSecret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw" //nolint:gosec // known to everybody, for a receiver on this machine
	// slackChannel is the conversation that Slack's posts go to.
	slackChannel = "C0123456789"
)

// connect makes the connections, each under the name of its platform. A repeat finds them.
func connect(ctx context.Context, api *client.API, s *Sandbox) error {
	bearer := &fireoncev1.Credential{Kind: &fireoncev1.Credential_BearerToken{BearerToken: &fireoncev1.BearerToken{Token: token}}}
	signing := &fireoncev1.Credential{Kind: &fireoncev1.Credential_WebhookSecrets{WebhookSecrets: &fireoncev1.WebhookSecrets{Secrets: []string{webhookSecret}}}}
	day := durationpb.New(24 * time.Hour)
	const yes = fireoncev1.ReceiverDedupes_RECEIVER_DEDUPES_YES
	for _, one := range []struct {
		key        string
		connection *fireoncev1.Connection
		credential *fireoncev1.Credential
	}{
		{nameX, &fireoncev1.Connection{Connector: "x", Settings: &fireoncev1.Connection_X{X: &fireoncev1.XSettings{}}}, bearer},
		{nameTikTok, &fireoncev1.Connection{Connector: "tiktok", Settings: &fireoncev1.Connection_Tiktok{Tiktok: &fireoncev1.TikTokSettings{
			Source: fireoncev1.TikTokSettings_SOURCE_FILE_UPLOAD,
		}}}, bearer},
		{nameMastodon, &fireoncev1.Connection{Connector: "mastodon", Settings: &fireoncev1.Connection_Mastodon{Mastodon: &fireoncev1.MastodonSettings{
			BaseUrl: s.URL(nameMastodon),
		}}}, bearer},
		{nameSlack, &fireoncev1.Connection{Connector: "slack", Settings: &fireoncev1.Connection_Slack{Slack: &fireoncev1.SlackSettings{Channel: slackChannel}}}, bearer},
		{nameResend, &fireoncev1.Connection{Connector: "resend"}, bearer},
		{namePayments, &fireoncev1.Connection{Connector: "http", Settings: &fireoncev1.Connection_Http{Http: &fireoncev1.HttpSettings{
			ReceiverDedupes: yes, KeyWindow: day, Origins: []string{s.URL(namePayments)}, IdJsonPointers: []string{"/data/id"},
		}}}, bearer},
		{nameOrders, &fireoncev1.Connection{Connector: "webhook", Settings: &fireoncev1.Connection_Webhook{Webhook: &fireoncev1.WebhookSettings{
			ReceiverDedupes: yes, KeyWindow: day,
		}}}, signing},
		{nameMail, &fireoncev1.Connection{Connector: "smtp", Settings: &fireoncev1.Connection_Smtp{Smtp: &fireoncev1.SmtpSettings{
			Host: "127.0.0.1", Port: int32(s.Ports[nameMail]), Security: fireoncev1.SmtpSettings_SECURITY_NONE,
		}}}, nil},
	} {
		one.connection.DisplayName = "Sandbox: " + s.site(one.key).title
		if _, err := api.Connections.CreateConnection(ctx, &fireoncev1.CreateConnectionRequest{
			IdempotencyKey: one.key, Connection: one.connection, Credential: one.credential,
		}); err != nil {
			return err
		}
	}
	return nil
}

func (s *Sandbox) site(name string) *site {
	for _, one := range s.sites {
		if one.name == name {
			return one
		}
	}
	return nil
}
