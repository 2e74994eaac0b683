package job

import "testing"

// TestMayReplace is the whole table: the known result of an attempt by row, and the
// new result by column. h is UNKNOWN with a handle.
func TestMayReplace(t *testing.T) {
	learnt := []Settled{
		{Result: ResultSucceeded}, {Result: ResultRejected}, {Result: ResultNotSent}, {Result: ResultAccepted},
		{Result: ResultUnknown}, {Result: ResultUnknown, Handle: "h"}, {Result: ResultAbsent}, {Result: ResultSuperseded},
	}
	for was, row := range map[Result]string{ // succ rej nots acc unk h abs sup
		0:                "yyyyyyyy",
		ResultUnknown:    "yyyyyyyy",
		ResultSucceeded:  "y-------",
		ResultRejected:   "yyyy-y--",
		ResultNotSent:    "yyyy-y--",
		ResultAccepted:   "yyyyyy--",
		ResultAbsent:     "yyyy-y--",
		ResultSuperseded: "yyyyyy--",
	} {
		for i, s := range learnt {
			if got, want := s.MayReplace(was), row[i] == 'y'; got != want {
				t.Errorf("%s, handle %q, over %s: %t, want %t", s.Result, s.Handle, was, got, want)
			}
		}
	}
}

func TestSaysNoEffect(t *testing.T) {
	for _, from := range States {
		for _, to := range States {
			want := from != to && (to == Retrying || to == Failed || to == Canceled || to == Expired)
			if got := (Decision{To: to}).SaysNoEffect(from); got != want {
				t.Errorf("%s to %s: %t, want %t", from, to, got, want)
			}
		}
	}
}
