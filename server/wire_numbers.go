package server

import (
	"slices"

	"github.com/fireonce/fireonce/clients/go/fireoncev1"
	"github.com/fireonce/fireonce/internal/job"
)

// Rules of this file: kinds of failures and causes of events are numbered by group in the
// contract, and one after the other in the database, where numbers never change. They meet
// here, by their names.

var (
	failureKinds = byName[fireoncev1.FailureKind, job.FailureKind](fireoncev1.FailureKind_value, "FAILURE_KIND_")
	eventCauses  = byName[fireoncev1.EventCause, job.Cause](fireoncev1.EventCause_value, "EVENT_CAUSE_")
)

// wireNames has the names that differ: for users, the end of a window is the job's.
var wireNames = map[string]string{"WINDOW_OVER FAILURE_KIND_": "EXPIRED"}

// byName returns the contract's number for each of the domain's; 0: the contract has none.
func byName[W ~int32, D interface {
	~uint8
	String() string
}](numbers map[string]int32, prefix string) []W {
	var out []W
	for n := D(0); n == 0 || n.String() != D(0).String(); n++ {
		name := n.String()
		if other, differs := wireNames[name+" "+prefix]; differs {
			name = other
		}
		out = append(out, W(numbers[prefix+name]))
	}
	return out
}

func failureToWire(k job.FailureKind) fireoncev1.FailureKind {
	if int(k) >= len(failureKinds) {
		return fireoncev1.FailureKind_FAILURE_KIND_UNSPECIFIED
	}
	return failureKinds[k]
}

// failureFromWire converts a kind that the contract's rules have seen.
func failureFromWire(k fireoncev1.FailureKind) job.FailureKind {
	return job.FailureKind(max(0, slices.Index(failureKinds, k)))
}

func causeToWire(c job.Cause) fireoncev1.EventCause {
	if int(c) >= len(eventCauses) {
		return fireoncev1.EventCause_EVENT_CAUSE_UNSPECIFIED
	}
	return eventCauses[c]
}
