package storetest

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// ClockRule is what a step of the clock does to the times in a column.
type ClockRule int

// The rules for columns.
const (
	_ ClockRule = iota
	// ClockMoves: the time was computed from a duration, or is the beginning of an age, and
	// moves with the clock.
	ClockMoves
	// ClockBounds: the time bounds something. It moves if it was not over, so that a bound
	// that was over stays over, and a running one keeps what is left of it.
	ClockBounds
	// ClockPasses: the time has passed, and something is decided by it. A step back to
	// before it moves it to the time after the step.
	ClockPasses
	// ClockDerives: the time follows from other columns.
	ClockDerives
	// ClockStays: a caller or a platform stated the time.
	ClockStays
	// ClockRecords: the time records when something happened, for people and for retention,
	// which keeps things as much longer or shorter as the clock was set.
	ClockRecords
	// ClockOwns: the time is what is believed of the clock.
	ClockOwns
)

// writes reports whether a step assigns the columns of a rule.
func (r ClockRule) writes() bool { return r == ClockMoves || r == ClockBounds || r == ClockPasses }

// clockRules has the columns of all engines that store a time. A new one states its rule
// here, and one that a step changes gets a case in the clock's conformance suite.
var clockRules = map[ClockRule]string{ //nolint:gosec // names of columns are no credentials
	ClockMoves: `
		job_state: start_deadline next_at armed_at round_armed_at send_deadline answer_deadline fence_at
		attempts: armed_at send_deadline answer_deadline fence_at
		connections: bucket_at
		connection_claims: bucket_at
		cool_downs: armed_at
		oauth_renewals: begun_at before_at
		subscriptions: next_at failing_at`,
	ClockBounds: `
		connection_ready: rate_limited_until paced_until stopped_until
		stops: probe_at
		oauth_renewals: until
		oauth_logins: expires_at
		retention: lease_until
		rollup_place: lease_until
		notice_place: until`,
	ClockPasses: `
		job_state: ended_at first_armed_at
		connection_ready: served_at
		connections: paused_at
		stops: begin_at
		api_keys: last_used_at
		schedules: next_at postponed_until`,
	ClockDerives: `
		connection_ready: next_at runnable_at`,
	ClockStays: `
		api_keys: expires_at
		connections: credential_expires_at
		connection_credentials: expires_at
		job_state: schedule_time
		firings: nominal_at
		stops: end_at`,
	ClockRecords: `
		meta: created_at released_at
		servers: started_at
		stops: created_at ended_at
		projects: created_at erased_at
		connections: created_at updated_at deleted_at
		connection_labels: created_at
		connection_credentials: created_at
		connection_ready: auth_hold_at
		jobs: created_at
		job_keys: kept_until
		job_state: claimed_at cancel_asked_at error_at effect_at created_at updated_at state_since armed_claimed_at attempt_claimed_at attempt_ended_at
		attempts: claimed_at ended_at
		effects: at
		observations: begun_at ended_at
		resolutions: at
		event_pages: at
		schedules: paused_at held_until ledger_begin created_at updated_at deleted_at
		firings: decided_at
		schedule_items: created_at updated_at ended_at
		rollup_place: at
		rollups: start_at
		api_keys: created_at revoked_at
		subscriptions: paused_at delivered_at created_at updated_at deleted_at
		notices: made_at ended_at
		erased_jobs: effect_at schedule_time created_at ended_at erased_at
		plans: created_at started_at advanced_at ended_at`,
	ClockOwns: `
		clock: at since`,
}

// TimeColumn matches the names of columns that store a time, where a schema has no type for
// them.
var TimeColumn = regexp.MustCompile(`^(at|since|until|.*_(at|since|until|time|deadline|begin))$`)

var (
	sqlComment  = regexp.MustCompile(`--[^\n]*`)
	assignments = regexp.MustCompile(`(?s)UPDATE (\w+)(?: AS \w+)? SET(.*?);`)
)

// ClockColumns checks that each column of a schema that stores a time, "table.column", has a
// rule, and that the queries of a step assign those that the rules say, and no others.
func ClockColumns(t *testing.T, columns []string, queries string) {
	t.Helper()
	rules := make(map[string]ClockRule)
	for rule, text := range clockRules {
		for _, line := range strings.Split(strings.TrimSpace(text), "\n") {
			table, names, _ := strings.Cut(strings.TrimSpace(line), ":")
			for _, name := range strings.Fields(names) {
				rules[table+"."+name] = rule
			}
		}
	}
	changes := assignments.FindAllStringSubmatch(sqlComment.ReplaceAllString(queries, ""), -1)
	for _, column := range columns {
		rule, stated := rules[column]
		if !stated {
			t.Errorf("%s: clockRules does not state what a step of the clock does to it", column)
			continue
		}
		table, name, _ := strings.Cut(column, ".")
		set := regexp.MustCompile(fmt.Sprintf(`(?m)(^|[ ,])%s = `, name))
		written := slices.ContainsFunc(changes, func(c []string) bool {
			before, _, _ := strings.Cut(c[2], "\nWHERE")
			return c[1] == table && set.MatchString(before)
		})
		if rule != ClockDerives && rule != ClockOwns && written != rule.writes() {
			t.Errorf("%s: a step changes it: %t, and its rule says %t", column, written, rule.writes())
		}
	}
	if len(columns) == 0 || len(changes) == 0 {
		t.Errorf("%d columns and %d changes were read", len(columns), len(changes))
	}
}
