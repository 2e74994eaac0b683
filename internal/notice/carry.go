package notice

import (
	"errors"
	"fmt"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/fireonce/fireonce/clients/go/connectionsv1"
	"github.com/fireonce/fireonce/clients/go/fireoncev1"
	"github.com/fireonce/fireonce/clients/go/subscriptionsv1"
	"github.com/fireonce/fireonce/internal/connector"
	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/internal/submit"
	"github.com/fireonce/fireonce/store"
)

// The connectors that send notices. They are named here and not imported: this package knows
// what a payload is, and no platform.
const (
	toWebhook = "webhook"
	toSlack   = "slack"
	toSMTP    = "smtp"
	toResend  = "resend"
)

// CallbackConnector is the connector of connections for callbacks.
const CallbackConnector = toWebhook

// CannotCarryError is the reason for a connection that cannot send notices. The message is for users.
type CannotCarryError struct{ Why string }

func (e *CannotCarryError) Error() string { return e.Why }

// forPeople reports whether a connector's notices are words.
func forPeople(name string) bool { return name != toWebhook }

// letter is what a notice says, in each form.
type letter struct {
	json          string
	subject, text string
}

// payload returns the payload of a notice to a connection.
func payload(conn store.Connection, target *subscriptionsv1.NoticeTarget, l letter) (*fireoncev1.Payload, error) {
	switch conn.Connector {
	case toWebhook:
		settings := new(connectionsv1.WebhookSettings)
		if err := proto.Unmarshal(conn.Settings, settings); err != nil {
			return nil, fmt.Errorf("settings of connection %s: %w", conn.ID, err)
		}
		if target.GetKind() != nil {
			return nil, &CannotCarryError{"a webhook connection has its own target: settings.webhook.callback_url"}
		}
		if settings.GetCallbackUrl() == "" {
			return nil, &CannotCarryError{"the connection has no settings.webhook.callback_url"}
		}
		return &fireoncev1.Payload{Kind: &fireoncev1.Payload_Webhook{Webhook: &fireoncev1.Webhook{
			Url: settings.GetCallbackUrl(), Content: &fireoncev1.Webhook_BodyText{BodyText: l.json},
		}}}, nil
	case toSlack:
		if target.GetEmail() != nil {
			return nil, &CannotCarryError{"target.email goes with a connection for e-mail"}
		}
		return &fireoncev1.Payload{Kind: &fireoncev1.Payload_SocialPost{SocialPost: &fireoncev1.SocialPost{
			Text: l.text, PlatformOptions: &fireoncev1.SocialPost_Slack{Slack: &fireoncev1.SlackOptions{Channel: target.GetSlackChannel()}},
		}}}, nil
	case toSMTP, toResend:
		to := target.GetEmail()
		if to == nil {
			return nil, &CannotCarryError{"a connection for e-mail needs target.email"}
		}
		return &fireoncev1.Payload{Kind: &fireoncev1.Payload_Email{Email: &fireoncev1.Email{
			Sender: to.GetSender(), To: to.GetTo(), Subject: l.subject, TextBody: l.text,
		}}}, nil
	default:
		return nil, &CannotCarryError{"the connector " + conn.Connector + " sends no notices; webhook, slack, smtp and resend do"}
	}
}

// The terms of a notice's job. A target that is down is tried every ten minutes; what a job does
// not reach in six hours, another one tries on.
const (
	startWindow = 24 * time.Hour
	keepTrying  = 6 * time.Hour
	minBackoff  = 2 * time.Second
	maxBackoff  = 10 * time.Minute
	multiplier  = 2
	maxAttempts = 60
)

// newJob returns the job of a notice. It does no I/O.
func newJob(registry *connector.Registry, conn store.Connection, id job.ID, p *fireoncev1.Payload) (*store.NewJob, error) {
	var fingerprint job.Fingerprint // no client can submit under the key of a notice
	fingerprint.Set("notice", []byte(id.String()))
	spec, err := submit.Spec("", "", &fireoncev1.ScheduleJobRequest{
		Payload: p, Delivery: fireoncev1.Delivery_DELIVERY_AT_LEAST_ONCE, StartWindow: durationpb.New(startWindow),
		RetryPolicy: &fireoncev1.RetryPolicy{
			MaxAttempts: maxAttempts, MinBackoff: durationpb.New(minBackoff), MaxBackoff: durationpb.New(maxBackoff),
			Multiplier: multiplier, KeepTrying: durationpb.New(keepTrying),
		},
	}, fingerprint)
	if err != nil {
		return nil, err
	}
	out := &store.NewJob{Spec: spec, Class: conn.Class, Recipients: submit.Recipients(p)}
	out.Spec.ID = id
	out.Spec.HoldKey, err = holdKey(registry, conn, out.Spec)
	return out, err
}

// letterOf reads what an earlier job of a notice said. Where it goes may have changed since.
func letterOf(of *job.Snapshot) (l letter, err error) {
	p := new(fireoncev1.Payload)
	if err := proto.Unmarshal(of.Payload, p); err != nil {
		return l, fmt.Errorf("payload of notice %s: %w", of.Key, err)
	}
	l.json, l.subject = p.GetWebhook().GetBodyText(), p.GetEmail().GetSubject()
	l.text = p.GetSocialPost().GetText() + p.GetEmail().GetTextBody()
	return l, nil
}

func holdKey(registry *connector.Registry, conn store.Connection, spec job.Spec) (string, error) {
	code, known := registry.Get(conn.Connector)
	if !known {
		return "", errNoConnector
	}
	prepared, err := code.Prepare(connector.Request{
		EffectKey: job.EffectKey("", "", spec.ID.String(), 1), Settings: conn.Settings, PayloadKind: spec.PayloadKind,
		Payload: spec.Payload, Offline: true,
	})
	if away, ok := errors.AsType[*connector.Refusal](err); ok && away.Kind == job.FailHeld && prepared.HoldKey != "" {
		err = nil
	}
	if input, ok := errors.AsType[*connector.InputError](err); ok {
		return "", &CannotCarryError{"the connection refuses its notices: " + input.Msg}
	}
	return prepared.HoldKey, err
}

// errNoConnector: this server lacks the connector. Another one makes the notice.
var errNoConnector = errors.New("no such connector on this server")

// Check returns an *CannotCarryError unless a connection can send notices to a target.
func Check(registry *connector.Registry, conn store.Connection, target *subscriptionsv1.NoticeTarget, id job.ID) error {
	p, err := payload(conn, target, letter{json: "{}", subject: "Test", text: "Test"})
	if err != nil {
		return err
	}
	_, err = newJob(registry, conn, id, p)
	return err
}
