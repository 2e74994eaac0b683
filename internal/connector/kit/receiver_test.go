package kit_test

import (
	"errors"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/fireonce/fireonce/clients/go/fireoncev1"
	"github.com/fireonce/fireonce/internal/connector"
	"github.com/fireonce/fireonce/internal/connector/kit"
	"github.com/fireonce/fireonce/internal/job"
)

// Only its owner knows whether a receiver takes two requests under way for one; unset is
// the safe answer.
func TestReceiverTraitsInFlight(t *testing.T) {
	yes, no := fireoncev1.ReceiverDedupes_RECEIVER_DEDUPES_YES, fireoncev1.ReceiverDedupes_RECEIVER_DEDUPES_NO
	hour := durationpb.New(time.Hour)
	for _, tt := range []struct {
		settings *fireoncev1.WebhookSettings
		want     job.Traits
		field    string
	}{
		{&fireoncev1.WebhookSettings{ReceiverDedupes: yes, KeyWindow: hour}, job.Traits{Class: job.Keyed, KeyWindow: time.Hour}, ""},
		{
			&fireoncev1.WebhookSettings{ReceiverDedupes: yes, KeyWindow: hour, DedupesInFlight: true},
			job.Traits{Class: job.Keyed, KeyWindow: time.Hour, DedupesInFlight: true}, "",
		},
		{&fireoncev1.WebhookSettings{ReceiverDedupes: no}, job.Traits{Class: job.Opaque}, ""},
		{&fireoncev1.WebhookSettings{ReceiverDedupes: no, DedupesInFlight: true}, job.Traits{}, "settings.webhook.dedupes_in_flight"},
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
