package kit_test

import (
	"errors"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/fireonce/fireonce/clients/go/connectionsv1"
	"github.com/fireonce/fireonce/internal/connector"
	"github.com/fireonce/fireonce/internal/connector/kit"
	"github.com/fireonce/fireonce/internal/job"
)

// Only its owner knows whether a receiver takes two requests under way for one; unset is
// the safe answer.
func TestReceiverTraitsInFlight(t *testing.T) {
	yes, no := connectionsv1.ReceiverDedupes_RECEIVER_DEDUPES_YES, connectionsv1.ReceiverDedupes_RECEIVER_DEDUPES_NO
	hour := durationpb.New(time.Hour)
	for _, tt := range []struct {
		settings *connectionsv1.WebhookSettings
		want     job.Traits
		field    string
	}{
		{&connectionsv1.WebhookSettings{ReceiverDedupes: yes, KeyWindow: hour}, job.Traits{Class: job.Keyed, KeyWindow: time.Hour}, ""},
		{
			&connectionsv1.WebhookSettings{ReceiverDedupes: yes, KeyWindow: hour, DedupesInFlight: true},
			job.Traits{Class: job.Keyed, KeyWindow: time.Hour, DedupesInFlight: true}, "",
		},
		{&connectionsv1.WebhookSettings{ReceiverDedupes: no}, job.Traits{Class: job.Opaque}, ""},
		{&connectionsv1.WebhookSettings{ReceiverDedupes: no, DedupesInFlight: true}, job.Traits{}, "settings.webhook.dedupes_in_flight"},
	} {
		got, err := kit.ReceiverTraits("settings.webhook", "webhook-id", tt.settings)
		var in *connector.InputError
		field := ""
		if errors.As(err, &in) {
			field = in.Field
		}
		if got != tt.want || field != tt.field {
			t.Errorf("%v: %+v, %v", tt.settings, got, err)
		}
	}
}
