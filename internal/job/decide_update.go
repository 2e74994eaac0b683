package job

import (
	"fmt"
	"strings"
)

// Rules of this file, the only place of what a client may change of a job, and when:
//   - nothing while a worker may hold a copy of the request, which is CLAIMED and
//     SENDING, and nothing of a job that has ended;
//   - the payload only before the first start: the effect key and its fingerprint at the
//     target, the frozen bytes and every look stand for the bytes of an attempt;
//   - the time for an attempt only then, too: a restored database takes the one that it
//     has for that of attempts which it does not know, and sets their fence by it;
//   - the rest is read anew whenever something is decided, and no attempt rests on it.

// Fields are parts of a request that a client may change.
type Fields uint8

// The fields, named as UpdateJobRequest names them.
const (
	FieldPayload Fields = 1 << iota
	FieldLabels
	FieldPolicy
	FieldRetry
	FieldAttemptTimeout
	FieldTimeZone

	// AllFields are all of them.
	AllFields = FieldPayload | FieldLabels | FieldPolicy | FieldRetry | FieldAttemptTimeout | FieldTimeZone
)

var fieldNames = []string{"payload", "labels", "ambiguity_policy", "retry_policy", "attempt_timeout", "time_zone"}

// Names gives the contract's names of the fields.
func (f Fields) Names() []string {
	var out []string
	for i, name := range fieldNames {
		if f&(1<<i) != 0 {
			out = append(out, name)
		}
	}
	return out
}

// Updatable gives what may change of a job in this state.
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
