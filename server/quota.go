package server

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/fireonce/fireonce/clients/go/fireoncev1"
	"github.com/fireonce/fireonce/store"
)

// Rules of this file: every quota has a name, a default, and one place where it is looked up. A
// limit of 0 is none. The defaults are far above honest use: they stop a key or a peer that takes
// everything. An operator that shares a server between tenants sets limits of its own.

// Quota names a limit.
type Quota string

// Quotas of a project.
const (
	// QuotaJobs bounds the jobs that are stored, ended ones too until they are removed.
	QuotaJobs Quota = "jobs"
	// QuotaBytes bounds the payloads of those jobs, the answers that are kept with them, and
	// the payloads that wait in queues of schedules.
	QuotaBytes Quota = "bytes"
	// QuotaConnections bounds the connections that are not deleted.
	QuotaConnections Quota = "connections"
	// QuotaAPIKeys bounds the live API keys.
	QuotaAPIKeys Quota = "api-keys"
	// QuotaLogins bounds the logins that were started and may still come back.
	QuotaLogins Quota = "logins"
	// QuotaSchedules bounds the schedules that are not deleted.
	QuotaSchedules Quota = "schedules"
	// QuotaSubscriptions bounds the subscriptions that are not deleted.
	QuotaSubscriptions Quota = "subscriptions"
	// QuotaStreams bounds the open event streams, on each server.
	QuotaStreams Quota = "streams"
	// QuotaCalls bounds the calls a second, on each server. As many may come together.
	QuotaCalls Quota = "calls"
)

// Quotas of a peer, an address that connects.
const (
	// QuotaPeerSignIns bounds the failed sign-ins a minute, on each server.
	QuotaPeerSignIns Quota = "peer-sign-ins"
	// QuotaPeerConnections bounds the open connections, on each server. Loopback addresses have
	// no limit: a proxy in front of the server brings all clients' connections.
	QuotaPeerConnections Quota = "peer-connections"
)

// quotaDefaults are the limits that hold unless others are set.
var quotaDefaults = []struct {
	name  Quota
	limit int64
}{
	{QuotaJobs, 1_000_000_000},
	{QuotaBytes, 1 << 40},
	{QuotaConnections, 100_000},
	{QuotaAPIKeys, 10_000},
	{QuotaLogins, 5_000},
	{QuotaSchedules, 10_000},
	{QuotaSubscriptions, 100},
	{QuotaStreams, 1_000},
	{QuotaCalls, 10_000},
	{QuotaPeerSignIns, 60},
	{QuotaPeerConnections, 2_000},
}

// quotaSkips bounds the skips of one schedule, for every project alike (store.MaxSkips).
const quotaSkips Quota = "skips"

// quotaItems and quotaItemBytes bound the queue of one schedule, for every project alike
// (store.MaxItems, store.MaxItemsBytes).
const (
	quotaItems     Quota = "schedule-items"
	quotaItemBytes Quota = "schedule-item-bytes"
)

// ofPeer reports whether a quota is a peer's and no project's.
func (q Quota) ofPeer() bool { return q == QuotaPeerSignIns || q == QuotaPeerConnections }

// QuotaNames returns the names of all quotas.
func QuotaNames() []string {
	out := make([]string, len(quotaDefaults))
	for i, d := range quotaDefaults {
		out[i] = string(d.name)
	}
	return out
}

// Quotas are the limits of a server. The zero value has the defaults.
type Quotas struct {
	all map[Quota]int64
	of  map[string]map[Quota]int64 // by project
}

// ParseQuotas reads limits, each NAME=VALUE for all projects or PROJECT:NAME=VALUE for
// one; a text may have several, separated by commas. A value is a number, for bytes also
// one with KiB, MiB, GiB or TiB; 0 is no limit.
func ParseQuotas(texts []string) (Quotas, error) {
	q := Quotas{all: make(map[Quota]int64), of: make(map[string]map[Quota]int64)}
	for text := range strings.SplitSeq(strings.Join(texts, ","), ",") {
		if text == "" {
			continue
		}
		if err := q.set(text); err != nil {
			return Quotas{}, err
		}
	}
	return q, nil
}

// set reads one limit.
func (q Quotas) set(text string) error {
	where, value, found := strings.Cut(text, "=")
	project, name, ofOne := strings.Cut(where, ":")
	if !ofOne {
		name = where
	}
	quota := Quota(name)
	limit, valid := quota.parse(value)
	switch {
	case !found:
		return fmt.Errorf("%q: must be NAME=VALUE or PROJECT:NAME=VALUE", text)
	case !slices.Contains(QuotaNames(), name):
		return fmt.Errorf("%q: there is no quota %q; there are %s", text, name, strings.Join(QuotaNames(), ", "))
	case !valid:
		return fmt.Errorf("%q: the value must be a number of at least 0%s", text, quota.units())
	case ofOne && project == "":
		return fmt.Errorf("%q: the project has no name", text)
	case ofOne && quota.ofPeer():
		return fmt.Errorf("%q: the quota %s is one of peers, which belong to no project", text, name)
	}
	limits := q.all
	if ofOne {
		if q.of[project] == nil {
			q.of[project] = make(map[Quota]int64)
		}
		limits = q.of[project]
	}
	if _, twice := limits[quota]; twice {
		return fmt.Errorf("%q: the quota is set twice", text)
	}
	limits[quota] = limit
	return nil
}

var byteUnits = []struct {
	suffix string
	size   int64
}{{"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30}, {"TiB", 1 << 40}}

func (q Quota) units() string {
	if q == QuotaBytes {
		return ", or one with KiB, MiB, GiB or TiB"
	}
	return ""
}

// maxQuotaValue bounds the values, so that no sum of two overflows.
const maxQuotaValue = 1 << 60

func (q Quota) parse(value string) (int64, bool) {
	size := int64(1)
	for _, u := range byteUnits {
		if number, found := strings.CutSuffix(value, u.suffix); found && q == QuotaBytes {
			value, size = number, u.size
			break
		}
	}
	n, err := strconv.ParseUint(value, 10, 63)
	if err != nil || int64(n) > maxQuotaValue/size {
		return 0, false
	}
	return int64(n) * size, true
}

// limit returns a project's limit, or a peer's when the project is empty. 0: none.
func (q Quotas) limit(project string, name Quota) int64 {
	if limit, set := q.of[project][name]; set {
		return limit
	}
	if limit, set := q.all[name]; set {
		return limit
	}
	for _, d := range quotaDefaults {
		if d.name == name {
			return d.limit
		}
	}
	return 0
}

// withoutCallers returns the quotas of a server that requires no key: it serves people on its own
// machine, and a limit of calls holds only if it was set.
func (q Quotas) withoutCallers() Quotas {
	if _, set := q.all[QuotaCalls]; set {
		return q
	}
	all := maps.Clone(q.all)
	if all == nil {
		all = make(map[Quota]int64, 1)
	}
	all[QuotaCalls] = 0
	return Quotas{all: all, of: q.of}
}

// hint is the part of an error that explains how to end it.
func (q Quota) hint() string {
	switch q {
	case QuotaConnections, QuotaSchedules:
		return "delete one, or ask the operator to raise the quota"
	case QuotaAPIKeys:
		return "revoke one, or ask the operator to raise the quota"
	case quotaSkips:
		return "put a firing back that is skipped, or pause the schedule"
	case quotaItems, quotaItemBytes:
		return "items leave as they are used; remove one"
	case QuotaLogins:
		return "logins end within 10 minutes"
	default:
		return "ended jobs are removed in time; the operator may raise the quota"
	}
}

// quotaWaits has the times after which a refused call may be worth repeating. For other quotas
// waiting does not help.
var quotaWaits = map[Quota]time.Duration{
	QuotaJobs: time.Minute, QuotaBytes: time.Minute, QuotaLogins: time.Minute,
}

// overQuota is the error for a quota that a project has used up.
func overQuota(name Quota, used, limit int64) *fault {
	f := refuse(fireoncev1.ErrorReason_ERROR_REASON_QUOTA_EXCEEDED,
		fmt.Sprintf("the project's quota %s is used up: %d of %d; %s", name, used, limit, name.hint()),
		"quota", string(name), "used", strconv.FormatInt(used, 10), "limit", strconv.FormatInt(limit, 10))
	f.retry = retryNever
	if wait, helps := quotaWaits[name]; helps {
		f.retry = wait
	}
	return f
}

// quotaFault converts a store's refusal to add one more, and logs it.
func (s *Server) quotaFault(err error, project string, name Quota) error {
	var full *store.QuotaError
	if !errors.As(err, &full) {
		return err
	}
	s.quotaLog.usedUp(project, name, full.Used, full.Limit)
	return overQuota(name, full.Used, full.Limit)
}

// tooManyCalls is the error for calls that come too fast. wait is the time until the next call
// may pass.
func tooManyCalls(name Quota, limit int64, wait time.Duration, msg string) *fault {
	f := refuse(fireoncev1.ErrorReason_ERROR_REASON_TOO_MANY_CALLS, msg,
		"quota", string(name), "limit", strconv.FormatInt(limit, 10))
	f.retry = max(wait, time.Millisecond)
	return f
}
