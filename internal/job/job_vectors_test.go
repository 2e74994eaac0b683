package job

import (
	"encoding/hex"
	"fmt"
	"strings"
	"testing"
)

// listed returns the numbers and names of an enum, from 1 to the last one with a name.
func listed[T interface {
	~uint8
	fmt.Stringer
}](none string) string {
	var out []string
	for n := T(1); n.String() != none; n++ {
		out = append(out, fmt.Sprintf("%d %s", n, n))
	}
	return strings.Join(out, ", ")
}

// TestEnumVectors holds the numbers that databases and the log store, and the names that the
// contract has for them. A changed number changes the meaning of stored rows.
func TestEnumVectors(t *testing.T) {
	const unspecified = "UNSPECIFIED"
	for name, enum := range map[string]struct{ got, want string }{
		"State": {listed[State]("NONE"), "1 SCHEDULED, 2 CLAIMED, 3 SENDING, 4 ACCEPTED, 5 AMBIGUOUS, 6 RETRYING, 7 NEEDS_RESOLUTION, " +
			"8 SUCCEEDED, 9 FAILED, 10 CANCELED, 11 EXPIRED"},
		"Class":    {listed[Class](unspecified), "1 KEYED, 2 HANDLE, 3 OBSERVABLE, 4 OPAQUE"},
		"Delivery": {listed[Delivery](unspecified), "1 ONCE_OR_ASK, 2 AT_MOST_ONCE, 3 AT_LEAST_ONCE"},
		"FailureKind": {listed[FailureKind](unspecified), "1 AUTH, 2 PERMANENT, 3 RATE_LIMITED, 4 TRANSIENT, 5 AMBIGUOUS, 6 EGRESS_DENIED, 7 ATTEMPTS_EXHAUSTED, " +
			"8 WORKER_CRASH, 9 WINDOW_OVER, 10 PREDECESSOR_ENDED, 11 ALREADY_PRESENT, 12 HELD"},
		"AuthCause": {listed[AuthCause](unspecified), "1 CREDENTIAL_REFUSED, 2 CREDENTIAL_EXPIRED, 3 LOGIN_ENDED, 4 RENEWAL_LOST, 5 PERMISSION_MISSING, " +
			"6 ACCOUNT_BARRED, 7 ACCOUNT_MISMATCH"},
		"Result": {listed[Result](unspecified), "1 SUCCEEDED, 2 REJECTED, 3 NOT_SENT, 4 UNKNOWN, 5 ACCEPTED, 6 SUPERSEDED, 7 ABSENT"},
		"Proof":  {listed[Proof](unspecified), "1 RESPONSE, 2 OBSERVED, 3 KEY_REPLAY, 4 OPERATOR, 5 ASSUMED"},
		"Ruling": {listed[Ruling](unspecified), "1 SENT, 2 NOT_SENT, 3 RESEND, 4 CANCEL"},
		"Cause": {listed[Cause](unspecified), "1 SUBMITTED, 2 CLAIMED, 3 INTENT_STORED, 4 ANSWERED, 5 NOT_STARTED, 6 LEASE_EXPIRED, 7 ANSWER_OVERDUE, " +
			"8 WINDOW_OVER, 9 LOOKED, 10 POLLED, 11 POLICY, 12 LATE_EVIDENCE, 13 CANCEL_REQUESTED, 14 RESOLVED, " +
			"15 RETRY_REQUESTED, 16 RESCHEDULED, 17 RUN_NOW, 18 UPDATED, 19 DUPLICATE_EFFECT_SEEN, 20 RESTORED, " +
			"21 EFFECT_SHARED, 22 PREDECESSOR_ENDED, 23 SENDER_LOST, 24 ALREADY_PRESENT"},
		"Verdict": {listed[Verdict](unspecified), "1 PRESENT, 2 ABSENT, 3 INCONCLUSIVE, 4 CANDIDATES, 5 HANDLE"},
	} {
		if enum.got != enum.want {
			t.Errorf("%s: %s, want %s", name, enum.got, enum.want)
		}
	}
	if BodyBinary != 1 || BodyEncoded != 2 {
		t.Errorf("BodyBinary is %d, BodyEncoded %d, want 1 and 2", BodyBinary, BodyEncoded)
	}
}

// TestTextVectors holds the texts that waiting jobs store.
func TestTextVectors(t *testing.T) {
	for got, want := range map[string]string{
		Stopped:             "waits for the end of a pause",
		WaitsForContent:     "waits for another job with the same content",
		ConnectionCoolsDown: "waits for the end of its connection's cool-down",
		ScheduleCoolsDown:   "waits for the end of its schedule's cool-down",
		ReservedKeyPrefix:   "fireonce:",
	} {
		if got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// TestEffectKeyDigestVector holds the digest that is stored for a caller's own effect key.
// The value is that of
// printf '\0\0\0\031fireonce own effect key 1\0\0\0\020host example.com\0\0\0\010order-42' | sha256sum.
func TestEffectKeyDigestVector(t *testing.T) {
	sum := EffectKeyDigest("host example.com", "order-42")
	if got := hex.EncodeToString(sum[:]); got != "a58fae67189a674fcb9eee9c90c4a32838193e99aac516f6ba20ef1a0795aee0" {
		t.Error(got)
	}
}
