// Package storetest is the conformance suite of the store contract: every engine passes it,
// and every sentence of the contract has a test in it.
//
// Rules of this package: each subtest builds its own fixture, nothing sleeps, and time is a
// value that the test moves.
package storetest

import (
	"testing"
	"time"

	"github.com/fireonce/fireonce/store"
)

// Open makes a new, empty store that takes its time from now. An engine whose
// clock is its server's must be opened so that it adds now's difference. The
// store is closed by the test.
type Open func(t *testing.T, now func() time.Time) store.Store

// Run runs the whole suite. Its groups run side by side, each case on a store of its own.
func Run(t *testing.T, open func(t *testing.T, now func() time.Time) store.Store) {
	for _, group := range []struct {
		name  string
		tests []test
	}{
		{"Create", createTests},
		{"Start", startTests},
		{"Read", readTests},
		{"List", listTests},
		{"Search", searchTests},
		{"Rollups", rollupTests},
		{"Events", eventTests},
		{"Claim", claimTests},
		{"Lease", leaseTests},
		{"Arm", armTests},
		{"ClaimArmed", claimArmedTests},
		{"CoolDown", coolDownTests},
		{"SkipIfPresent", presentTests},
		{"Traces", traceTests},
		{"Apply", applyTests},
		{"Evidence", evidenceTests},
		{"Due", dueTests},
		{"KeepTrying", keepTryingTests},
		{"Orphans", orphanTests},
		{"Fleet", fleetTests},
		{"Reply", replyTests},
		{"Reschedule", rescheduleTests},
		{"Update", updateTests},
		{"Owners", ownerTests},
		{"Doubtful", doubtfulTests},
		{"Stats", statsTests},
		{"Vitals", vitalsTests},
		{"Incidents", incidentTests},
		{"Plans", planTests},
		{"Quarantine", quarantineTests},
		{"Namespace", namespaceTests},
		{"EffectKeys", effectKeyTests},
		{"Retention", retentionTests},
		{"Erase", eraseTests},
		{"Limits", limitTests},
		{"Connections", connectionTests},
		{"ListConnections", connectionListTests},
		{"ChangeConnection", connectionChangeTests},
		{"Wake", wakeTests},
		{"Stops", stopTests},
		{"HeldWindows", stopWindowTests},
		{"Breakers", breakerTests},
		{"Keys", keyTests},
		{"OAuth", oauthTests},
		{"Quotas", quotaTests},
		{"Schedules", scheduleTests},
		{"Items", itemTests},
		{"Subscriptions", subscriptionTests},
		{"Notices", noticeTests},
		{"Restored", restoredTests},
		{"Calls", callTests},
		{"Random", randomTests},
	} {
		t.Run(group.name, func(t *testing.T) {
			t.Parallel()
			for _, tt := range group.tests {
				t.Run(tt.name, func(t *testing.T) { tt.run(newFixture(t, open)) })
			}
		})
	}
}

type test struct {
	name string
	run  func(*fixture)
}
