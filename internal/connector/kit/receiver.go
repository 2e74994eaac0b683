package kit

import (
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/fireonce/fireonce/clients/go/connectionsv1"
	"github.com/fireonce/fireonce/internal/connector"
	"github.com/fireonce/fireonce/internal/job"
)

// How long a receiver may be stated to remember a key: the contract's limits.
const (
	MinKeyWindow = time.Minute
	MaxKeyWindow = 30 * 24 * time.Hour
	// MinHandlingTime and MaxHandlingTime bound how long a receiver may be stated to work on
	// a request, and handlingShare its share of the key window: a repeat is possible only
	// while the rest of the window is long enough for it.
	MinHandlingTime = time.Second
	MaxHandlingTime = time.Hour
	handlingShare   = 4
)

// Receiver is what the owner of a receiver states about it.
type Receiver interface {
	GetReceiverDedupes() connectionsv1.ReceiverDedupes
	GetKeyWindow() *durationpb.Duration
	GetDedupesInFlight() bool
	GetMaxHandlingTime() *durationpb.Duration
}

// ReceiverTraits returns the class of a target whose owner must say whether it
// dedupes, for how long, and whether two requests that are under way together are one to
// it. settings is the path of its settings, header the name of what it dedupes on. It
// fails with *InputError.
func ReceiverTraits(settings, header string, s Receiver) (job.Traits, error) {
	bad := Bad(connector.BadSettings, settings+".")
	handling := s.GetMaxHandlingTime().AsDuration()
	switch says, stated := s.GetReceiverDedupes(), s.GetMaxHandlingTime(); {
	case stated == nil:
	case says != connectionsv1.ReceiverDedupes_RECEIVER_DEDUPES_UNSPECIFIED && s.GetDedupesInFlight():
		return job.Traits{}, bad("max_handling_time", "has no use for a receiver that dedupes in flight")
	case !stated.IsValid() || handling < MinHandlingTime || handling > MaxHandlingTime:
		return job.Traits{}, bad("max_handling_time", "must be 1 second to 1 hour")
	}
	switch says, window := s.GetReceiverDedupes(), s.GetKeyWindow(); says {
	case connectionsv1.ReceiverDedupes_RECEIVER_DEDUPES_YES:
		d := window.AsDuration()
		if !window.IsValid() || d < MinKeyWindow || d > MaxKeyWindow {
			return job.Traits{}, bad("key_window", "must be 1 minute to 30 days when the receiver dedupes")
		}
		if handling > d/handlingShare {
			return job.Traits{}, bad("max_handling_time", "must be at most a quarter of key_window")
		}
		return job.Traits{Class: job.Keyed, KeyWindow: d, MaxHandling: handling, DedupesInFlight: s.GetDedupesInFlight()}, nil
	case connectionsv1.ReceiverDedupes_RECEIVER_DEDUPES_NO:
		if window != nil {
			return job.Traits{}, bad("key_window", "goes only with a receiver that dedupes")
		}
		if s.GetDedupesInFlight() {
			return job.Traits{}, bad("dedupes_in_flight", "goes only with a receiver that dedupes")
		}
		return job.Traits{Class: job.Opaque, MaxHandling: handling}, nil
	default:
		return job.Traits{}, bad("receiver_dedupes", "must say whether the receiver dedupes on "+header)
	}
}
