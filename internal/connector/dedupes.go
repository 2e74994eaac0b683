package connector

import (
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	fireoncev1 "github.com/fireonce/fireonce/gen/fireonce/v1"
	"github.com/fireonce/fireonce/internal/job"
)

// How long a receiver may be said to remember a key: the contract's limits.
const (
	MinKeyWindow = time.Minute
	MaxKeyWindow = 30 * 24 * time.Hour
)

// ReceiverTraits gives the class of a target whose owner must say whether it
// dedupes, and for how long. settings is the path of its settings, header the
// name of what it dedupes on. It fails with *InputError.
func ReceiverTraits(settings, header string, says fireoncev1.ReceiverDedupes, window *durationpb.Duration) (job.Traits, error) {
	bad := func(field, msg string) (job.Traits, error) {
		return job.Traits{}, &InputError{Reason: BadSettings, Field: settings + "." + field, Msg: msg}
	}
	switch says {
	case fireoncev1.ReceiverDedupes_RECEIVER_DEDUPES_YES:
		d := window.AsDuration()
		if !window.IsValid() || d < MinKeyWindow || d > MaxKeyWindow {
			return bad("key_window", "must be 1 minute to 30 days when the receiver dedupes")
		}
		return job.Traits{Class: job.Keyed, KeyWindow: d}, nil
	case fireoncev1.ReceiverDedupes_RECEIVER_DEDUPES_NO:
		if window != nil {
			return bad("key_window", "goes only with a receiver that dedupes")
		}
		return job.Traits{Class: job.Opaque}, nil
	default:
		return bad("receiver_dedupes", "must say whether the receiver dedupes on "+header)
	}
}
