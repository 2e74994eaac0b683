package server

import (
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/fireonce/fireonce/clients/go/connectionsv1"
	"github.com/fireonce/fireonce/clients/go/fireoncev1"
	"github.com/fireonce/fireonce/clients/go/schedulesv1"
	"github.com/fireonce/fireonce/clients/go/subscriptionsv1"
)

// Rules of this file:
//   - content is what a caller gave to be sent, what a target answered, and texts that may
//     quote either. It needs ScopePayloadsRead, whatever other scope shows its message;
//   - the table has the fields that are content. A message from which one was removed states so in
//     contentWithheld. The reason of a state has other words instead (blockedWords);
//   - one walk takes content out of every answer and event, so no handler has to think of it;
//   - a filter that finds jobs by their content reveals it, and needs the scope, too
//     (jobs_list.go).

// contentWithheld is the field by which a message states that content was taken out of it.
const contentWithheld protoreflect.Name = "content_withheld"

// contentOf is the whole table of fields that are content, by their messages.
var contentOf = map[protoreflect.FullName][]protoreflect.Name{
	"fireonce.v1.Job":                        {"payload"},
	"fireonce.v1.JobError":                   {"message"},
	"fireonce.v1.Attempt":                    {"answer", "detail"},
	"fireonce.v1.Observation":                {"detail"},
	"fireonce.v1.JobChanged":                 {"detail"},
	"fireonce.subscriptions.v1.Subscription": {"last_error"},
	"fireonce.schedules.v1.JobTemplate":      {"payload"},
	"fireonce.schedules.v1.ScheduleItem":     {"payload", "refuse_reason"},

	"fireonce.connections.v1.TestConnectionResponse": {"detail"},
}

// withholdContent takes the content out of a message and of all that is in it.
func withholdContent(m protoreflect.Message) {
	withheld := false
	switch m := m.Interface().(type) {
	case *fireoncev1.BlockedReason:
		withholdQuote(m)
	case *connectionsv1.Connection:
		withholdRefusal(m)
	case *schedulesv1.Schedule:
		withholdNote(m)
	case *subscriptionsv1.Subscription:
		withholdFailure(m)
	case *fireoncev1.Firing:
		withholdReason(m)
	}
	for _, name := range contentOf[m.Descriptor().FullName()] {
		if field := m.Descriptor().Fields().ByName(name); m.Has(field) {
			m.Clear(field)
			withheld = true
		}
	}
	if withheld {
		m.Set(m.Descriptor().Fields().ByName(contentWithheld), protoreflect.ValueOfBool(true))
	}
	m.Range(func(field protoreflect.FieldDescriptor, value protoreflect.Value) bool {
		switch {
		case field.Message() == nil || field.IsMap(): // maps of the contract have texts
		case field.IsList():
			for i := range value.List().Len() {
				withholdContent(value.List().Get(i).Message())
			}
		default:
			withholdContent(value.Message())
		}
		return true
	})
}

// blockedWords stand for the message of a BlockedReason of a kind that may quote a platform.
var blockedWords = map[fireoncev1.BlockedReason_Kind]string{
	fireoncev1.BlockedReason_KIND_CREDENTIAL: "The credential cannot be used: reconnect the account.",
	fireoncev1.BlockedReason_KIND_PUT_OFF:    "The job's next step was put off.",
}

// withholdQuote puts the kind's words in the place of a message that may quote a platform.
func withholdQuote(b *fireoncev1.BlockedReason) {
	words, quotes := blockedWords[b.GetKind()]
	if quotes && b.GetConnectionCause() != fireoncev1.ConnectionStateCause_CONNECTION_STATE_CAUSE_CREDENTIAL_MISSING {
		b.Message, b.ContentWithheld = words, true
	}
}

// withholdRefusal puts other words in the place of those about a credential that cannot be
// used, which may be a platform's.
func withholdRefusal(c *connectionsv1.Connection) {
	switch {
	case c.GetState() != connectionsv1.ConnectionState_CONNECTION_STATE_AUTH_HOLD, c.GetStateReason() == "",
		c.GetStateCause() == fireoncev1.ConnectionStateCause_CONNECTION_STATE_CAUSE_CREDENTIAL_MISSING:
	default:
		c.StateReason, c.ContentWithheld = blockedWords[fireoncev1.BlockedReason_KIND_CREDENTIAL], true
	}
}

// withholdNote takes a note out that may quote content: of a schedule that paused itself for
// its jobs.
func withholdNote(s *schedulesv1.Schedule) {
	switch s.GetPauseCause() {
	case schedulesv1.SchedulePauseCause_SCHEDULE_PAUSE_CAUSE_FAILURES, schedulesv1.SchedulePauseCause_SCHEDULE_PAUSE_CAUSE_JOB_REFUSED,
		schedulesv1.SchedulePauseCause_SCHEDULE_PAUSE_CAUSE_RESTORED: // its note may be that of another cause
		s.ContentWithheld = s.GetNote() != ""
		s.Note = ""
	default:
	}
}

// withholdFailure takes the note of a subscription out that paused itself: it may quote the target.
func withholdFailure(s *subscriptionsv1.Subscription) {
	if s.GetPauseCause() == subscriptionsv1.SubscriptionPauseCause_SUBSCRIPTION_PAUSE_CAUSE_FAILURES && s.GetNote() != "" {
		s.Note, s.ContentWithheld = "", true
	}
}

// withholdReason takes out why a firing's job was refused.
func withholdReason(f *fireoncev1.Firing) {
	if f.GetOutcome() == fireoncev1.FiringOutcome_FIRING_OUTCOME_REFUSED && f.GetReason() != "" {
		f.Reason, f.ContentWithheld = "", true
	}
}

// withoutContent is a copy of a message that others read, too, without content.
func withoutContent(m *fireoncev1.StreamJobEventsResponse) *fireoncev1.StreamJobEventsResponse {
	out := proto.CloneOf(m)
	withholdContent(out.ProtoReflect())
	return out
}
