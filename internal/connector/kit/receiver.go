package kit

import (
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	fireoncev1 "github.com/fireonce/fireonce/gen/fireonce/v1"
	"github.com/fireonce/fireonce/internal/connector"
	"github.com/fireonce/fireonce/internal/job"
)

// How long a receiver may be stated to remember a key: the contract's limits.
const (
	MinKeyWindow = time.Minute
	MaxKeyWindow = 30 * 24 * time.Hour
)

// Receiver is what the owner of a receiver states about it.
type Receiver interface {
	GetReceiverDedupes() fireoncev1.ReceiverDedupes
	GetKeyWindow() *durationpb.Duration
	GetDedupesInFlight() bool
}

// ReceiverTraits returns the class of a target whose owner must say whether it
// dedupes, for how long, and whether two requests that are under way together are one to
// it. settings is the path of its settings, header the name of what it dedupes on. It
// fails with *InputError.
func ReceiverTraits(settings, header string, s Receiver) (job.Traits, error) {
	bad := func(field, msg string) (job.Traits, error) {
		return job.Traits{}, &connector.InputError{Reason: connector.BadSettings, Field: settings + "." + field, Msg: msg}
	}
	switch says, window := s.GetReceiverDedupes(), s.GetKeyWindow(); says {
	case fireoncev1.ReceiverDedupes_RECEIVER_DEDUPES_YES:
		d := window.AsDuration()
		if !window.IsValid() || d < MinKeyWindow || d > MaxKeyWindow {
			return bad("key_window", "must be 1 minute to 30 days when the receiver dedupes")
		}
		t := job.Traits{Class: job.Keyed, KeyWindow: d}
		if s.GetDedupesInFlight() {
			t.Repeat = job.RepeatInFlight
		}
		return t, nil
	case fireoncev1.ReceiverDedupes_RECEIVER_DEDUPES_NO:
		if window != nil {
			return bad("key_window", "goes only with a receiver that dedupes")
		}
		if s.GetDedupesInFlight() {
			return bad("dedupes_in_flight", "goes only with a receiver that dedupes")
		}
		return job.Traits{Class: job.Opaque}, nil
	default:
		return bad("receiver_dedupes", "must say whether the receiver dedupes on "+header)
	}
}
