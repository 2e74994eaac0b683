package main

import (
	"errors"
	"strings"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/fireonce/fireonce/clients/go/fireoncev1"
	"github.com/fireonce/fireonce/clients/go/schedulesv1"
	"github.com/fireonce/fireonce/clients/go/subscriptionsv1"
	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/internal/proof/chaos/judge"
)

// states and proofs are the judge's by the contract's; both have the same names.
var (
	states = named(fireoncev1.JobState_name, "JOB_STATE_", job.State.String)
	proofs = named(fireoncev1.Effect_Proof_name, "PROOF_", job.Proof.String)
)

// named pairs values by their names. UNSPECIFIED is the zero value.
func named[V ~uint8](contract map[int32]string, prefix string, name func(V) string) map[int32]V {
	out := make(map[int32]V, len(contract))
	for number, text := range contract {
		for v := V(1); number != 0; v++ {
			if name(v) == strings.TrimPrefix(text, prefix) {
				out[number] = v
				break
			}
			if int(v) > len(contract) {
				panic("no value is called " + text)
			}
		}
	}
	return out
}

func finalOf(j *fireoncev1.Job) judge.Final {
	return judge.Final{
		JobID: j.GetJobId(), Key: j.GetIdempotencyKey(), ConnectionID: j.GetConnectionId(), State: states[int32(j.GetState())], Sequence: j.GetSequence(),
		Attempts: int(j.GetAttemptCount()), Round: int(j.GetResendCount()) + 1, ExternalID: j.GetEffect().GetExternalId(),
		Proof: proofs[int32(j.GetEffect().GetProof())], Error: j.GetLastError().GetMessage(),
	}
}

func eventOf(e *fireoncev1.JobChanged, cursor string) judge.Event {
	return judge.Event{
		Cursor: cursor,
		JobID:  e.GetJobId(), Sequence: e.GetSequence(), From: states[int32(e.GetOldState())], To: states[int32(e.GetNewState())],
		Cause: strings.TrimPrefix(e.GetCause().String(), "EVENT_CAUSE_"), Actor: e.GetActor(),
		Attempt: int(e.GetAttempt().GetNumber()), EffectKey: e.GetAttempt().GetEffectKey(), Detail: e.GetDetail(),
	}
}

// itemError is the error that the item's own call would have had.
func itemError(e *fireoncev1.ItemError, key string) error {
	return connect.NewError(connect.Code(e.GetCode()), errors.New(key+": "+e.GetMessage()))
}

func ledgerRowOf(f *fireoncev1.Firing) judge.LedgerRow {
	return judge.LedgerRow{
		Name: f.GetName(), Nominal: f.GetNominalTime().AsTime(), Outcome: strings.TrimPrefix(f.GetOutcome().String(), "FIRING_OUTCOME_"),
		JobID: f.GetJobId(), Blocking: f.GetBlockingJobId(), Run: f.GetRun(), Decided: f.GetDecideTime().AsTime(),
	}
}

func listedNoticeOf(n *subscriptionsv1.SentNotice) judge.ListedNotice {
	return judge.ListedNotice{
		Number: n.GetNumber(), Kind: strings.TrimPrefix(n.GetKind().String(), "NOTICE_KIND_"), Events: n.GetEventCount(), Outcome: states[int32(n.GetOutcome())],
	}
}

// countsOf has the counters by the outcomes' names.
func countsOf(c *schedulesv1.FiringCounts) map[string]int64 {
	out := make(map[string]int64)
	c.ProtoReflect().Range(func(field protoreflect.FieldDescriptor, n protoreflect.Value) bool {
		out[strings.ToUpper(string(field.Name()))] = n.Int()
		return true
	})
	return out
}
