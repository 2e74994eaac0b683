package store

import (
	"encoding/hex"
	"testing"

	"github.com/fireonce/fireonce/internal/job"
)

// TestEnumVectors holds the numbers that databases store. A changed number changes the
// meaning of stored rows.
func TestEnumVectors(t *testing.T) {
	for name, enum := range map[string]struct{ got, want []int }{
		"DoubtKind": {numbers(SuspectSet, SuspectBehind, SuspectElsewhere), []int{1, 2, 3}},
		"ErasePhase": {numbers(EraseSubscriptions, EraseSchedules, EraseNotices, EraseJobs, EraseRest, EraseNoticeLog, EraseLog, EraseHoldings,
			EraseDone), []int{0, 1, 2, 3, 4, 5, 6, 7, 8}},
		"SubscriptionState": {numbers(SubscriptionActive, SubscriptionPaused, SubscriptionDeleted), []int{1, 2, 3}},
		"SubscriptionPause": {numbers(SubscriptionPausedByPerson, SubscriptionPausedByFailures), []int{1, 2}},
		"NoticeKind":        {numbers(NoticeEvents, NoticeDigest, NoticeTest, NoticeSilence, NoticeRecovered, NoticeConnections), []int{1, 2, 3, 4, 5, 6}},
		"ItemState":         {numbers(ItemWaiting, ItemUsed, ItemRemoved, ItemRefused), []int{1, 2, 3, 4}},
		"Phase":             {numbers(PhaseEvents, PhaseJobs, PhaseKeys, PhaseObjects, PhaseFirings, PhaseDone), []int{0, 1, 2, 3, 4, 5}},
		"Width":             {numbers(Minute, Hour, Day), []int{1, 2, 3}},
		"Known":             {numbers(KnownFound, KnownRepeated, KnownLate, KnownAbsent, KnownPerson, KnownPolicy), []int{1, 2, 3, 4, 5, 6}},
		"ScheduleState":     {numbers(ScheduleActive, SchedulePaused, ScheduleEnded, ScheduleDeleted), []int{1, 2, 3, 4}},
		"PauseCause":        {numbers(PausedByPerson, PausedByFailures, PausedByAuthHold, PausedByRefusal, PausedByRestore), []int{1, 2, 3, 4, 5}},
		"TimeMark":          {numbers(MarkShifted, MarkFirstOfTwo, MarkRepeated), []int{1, 2, 3}},
		"FiringOrigin":      {numbers(FiredByTime, FiredByCatchUp, FiredByTrigger, FiredByBackfill), []int{1, 2, 3, 4}},
		"FiringOutcome": {numbers(FiringFired, FiringBuffered, FiringSkippedByOverlap, FiringSkippedByPerson, FiringMissed,
			FiringCoalesced, FiringRefused, FiringHeld, FiringNoContent, FiringSkippedByLimit), []int{1, 2, 3, 4, 5, 6, 7, 8, 9, 10}},
		"ConnectionState": {numbers(ConnectionActive, ConnectionPaused, ConnectionAuthHold, ConnectionRateLimited, ConnectionDeleted), []int{1, 2, 3, 4, 5}},
	} {
		for i, n := range enum.got {
			if n != enum.want[i] {
				t.Errorf("%s: %v, want %v", name, enum.got, enum.want)
				break
			}
		}
	}
}

func numbers[T ~int | ~uint8](all ...T) (out []int) {
	for _, n := range all {
		out = append(out, int(n))
	}
	return out
}

// TestObjectDigestVector holds the digest that the record of an erased job keeps. The value
// is that of printf '\0\0\0\030fireonce erased object 1\0\0\0\044ID\0\0\0\0021a' | sha256sum, with
// the job's id in place of ID.
func TestObjectDigestVector(t *testing.T) {
	id, err := job.ParseID("0197f5c0-0000-7000-8000-00000000abcd")
	if err != nil {
		t.Fatal(err)
	}
	const want = "3353b9bacf0aca5e29ce72fbb951b4f0ede0ec10d97332113106a665bf7f1ffd"
	if got := hex.EncodeToString(ObjectDigest(id, "1a")); got != want {
		t.Errorf("%s, want %s", got, want)
	}
}
