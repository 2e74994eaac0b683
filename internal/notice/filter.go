package notice

import (
	"fmt"
	"slices"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/fireonce/fireonce/clients/go/subscriptionsv1"
	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/store"
)

// Spec is what a caller asked of a subscription, in the form in which it is stored and used.
type Spec struct {
	// Stated is the contract's message; its filter has ids and no keys.
	Stated *subscriptionsv1.Subscription
	// Callback: it reports of the jobs whose callback is its connection.
	Callback job.ID

	states                 []job.State
	phases                 []job.Phase
	connections, schedules []job.ID
	labels                 map[string]string
	silence                time.Duration
	// forPeople: its notices are words.
	forPeople bool
}

// EncodeSpec returns what is stored of a subscription: its filter, rules, target and
// include_content.
func EncodeSpec(s *subscriptionsv1.Subscription) ([]byte, error) {
	return proto.MarshalOptions{Deterministic: true}.Marshal(&subscriptionsv1.Subscription{
		Filter: s.GetFilter(), Rules: s.GetRules(), Target: s.GetTarget(), IncludeContent: s.GetIncludeContent(),
	})
}

// SpecOf reads the spec of a stored subscription.
func SpecOf(s store.Subscription) (*Spec, error) {
	stated := new(subscriptionsv1.Subscription)
	if err := proto.Unmarshal(s.Spec, stated); err != nil {
		return nil, fmt.Errorf("spec of subscription %s: %w", s.ID, err)
	}
	f := stated.GetFilter()
	out := &Spec{Stated: stated, labels: f.GetLabels(), silence: stated.GetRules().GetSilence().AsDuration()}
	if s.Callbacks {
		out.Callback = s.Connection
	}
	for _, state := range f.GetStates() {
		out.states = append(out.states, job.State(state))
	}
	for _, phase := range f.GetPhases() {
		out.phases = append(out.phases, job.Phase(phase))
	}
	for list, to := range map[*[]job.ID][]string{&out.connections: f.GetConnectionIds(), &out.schedules: f.GetScheduleIds()} {
		for _, text := range to {
			id, err := job.ParseID(text)
			if err != nil {
				return nil, fmt.Errorf("spec of subscription %s: %w", s.ID, err)
			}
			*list = append(*list, id)
		}
	}
	return out, nil
}

// alarm reports whether a cause is one that no change of state shows.
func alarm(c job.Cause) bool { return c == job.CauseDuplicateEffect || c == job.CauseEffectShared }

// of reports whether an event belongs to what the filter is about, whatever happened.
func (s *Spec) of(e job.Event) bool {
	return (len(s.connections) == 0 || slices.Contains(s.connections, e.Connection)) &&
		(len(s.schedules) == 0 || slices.Contains(s.schedules, e.Schedule))
}

// selects reports whether the filter selects an event, as far as its labels do not decide.
func (s *Spec) selects(e job.Event) bool {
	changed := e.To != e.From
	switch {
	case !s.of(e):
		return false
	case !s.Callback.IsZero():
		return changed && (e.To.Terminal() || e.To == job.NeedsResolution)
	case len(s.states)+len(s.phases) == 0:
		return alarm(e.Cause) || changed && (e.To == job.Failed || e.To == job.Expired || e.To == job.NeedsResolution)
	default:
		return changed && (slices.Contains(s.states, e.To) ||
			slices.Contains(s.phases, e.To.Phase()) && (e.From == 0 || e.From.Phase() != e.To.Phase()))
	}
}

// succeeds reports whether an event is a success among what the filter is about. That a person, or
// the job's delivery, says that an unknown job was sent proves nothing of its target.
func (s *Spec) succeeds(e job.Event) bool {
	return e.To == job.Succeeded && e.From != e.To && e.Cause != job.CauseResolved && e.Cause != job.CausePolicy && s.of(e)
}

// bad reports whether an event is of a kind from which a connection recovers.
func bad(e job.Event) bool {
	return e.To != e.From && (e.To == job.Failed || e.To == job.Expired || e.To == job.NeedsResolution || e.To == job.Ambiguous)
}

// named reports whether a job is of those that the filter selects by its labels or its callback.
func (s *Spec) named(n store.JobName) bool {
	for name, value := range s.labels {
		if got, there := n.Labels[name]; !there || got != value {
			return false
		}
	}
	return s.Callback.IsZero() || n.Callback == s.Callback
}

// byName reports whether the names of jobs matter.
func (s *Spec) byName() bool { return len(s.labels) > 0 || !s.Callback.IsZero() }
