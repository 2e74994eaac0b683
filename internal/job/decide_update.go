package job

import (
	"fmt"
	"strings"
)

// Rules of this file, which alone defines which fields of a job a client may change, and when:
//   - none while a worker may hold a copy of the request, which is in CLAIMED and SENDING,
//     and none of a job that has ended;
//   - the payload only before the first start: the effect key and its fingerprint at the
//     target, the frozen bytes and every look refer to the bytes of an attempt;
//   - the attempt timeout also only before the first start: a restored database may not know
//     of some attempts, and computes their fence from the timeout that it has;
//   - the other fields are read again for each decision, and no attempt depends on them.

// Fields is a set of fields of a request that a client may change.
type Fields uint8

// The fields, named as UpdateJobRequest names them.
const (
	FieldPayload Fields = 1 << iota
	FieldLabels
	FieldDelivery
	FieldRetry
	FieldAttemptTimeout
	FieldTimeZone

	// AllFields is the set of all fields.
	AllFields = FieldPayload | FieldLabels | FieldDelivery | FieldRetry | FieldAttemptTimeout | FieldTimeZone
)

var fieldNames = []string{"payload", "labels", "delivery", "retry_policy", "attempt_timeout", "time_zone"}

// Names returns the contract's names of the fields.
func (f Fields) Names() []string {
	var out []string
	for i, name := range fieldNames {
		if f&(1<<i) != 0 {
			out = append(out, name)
		}
	}
	return out
}

// Updatable returns the fields that may change of a job in this state.
func (s State) Updatable() Fields {
	switch s {
	case Scheduled:
		return AllFields
	case Retrying, Accepted, Ambiguous, NeedsResolution:
		return AllFields &^ (FieldPayload | FieldAttemptTimeout)
	default:
		return 0
	}
}

func decideUpdate(v *View, r UpdateAsked) (Decision, error) {
	asked := r.Fields
	if asked == 0 {
		asked = AllFields
	}
	refused := asked &^ v.State.Updatable()
	switch {
	case r.Same:
		return nothing, nil
	case refused != 0:
		e := &StateError{Current: v.State, Fields: refused}
		for _, s := range States {
			if asked&^s.Updatable() == 0 {
				e.Allowed = append(e.Allowed, s)
			}
		}
		e.Why = fmt.Sprintf("%s cannot change now", strings.Join(refused.Names(), ", "))
		return Decision{}, e
	default:
		return same(v, CauseUpdated), nil
	}
}
