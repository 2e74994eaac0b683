package notice

import (
	"context"
	"fmt"
	"maps"
	"time"

	"github.com/fireonce/fireonce/clients/go/fireoncev1"
	"github.com/fireonce/fireonce/clients/go/subscriptionsv1"
	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/store"
)

// Rules of this file: the log has no events of connections. A subscription to holds compares what its
// connections are with what it reported last, once in each holdLook. So it reports each state that
// lasts, and a hold that comes and goes between two looks is none.

const (
	// holdLook is how often the connections of a subscription are looked at. Each look writes its row.
	holdLook = time.Minute
	// holdSoon is how long before its end a credential is reported.
	holdSoon = store.VitalsSoon
)

// passes reports whether a cause passes without a person. It is not reported.
func passes(c fireoncev1.ConnectionStateCause) bool {
	return c == fireoncev1.ConnectionStateCause_CONNECTION_STATE_CAUSE_RATE_LIMITED
}

// standing is a connection's state as the memory has it; empty: it sends, and will.
func standing(c *subscriptionsv1.ConnectionChange, now time.Time) string {
	if c.GetCause() != 0 {
		return fmt.Sprint(int(c.GetCause()))
	}
	if end := c.GetCredentialExpireTime(); end != nil && end.AsTime().Before(now.Add(holdSoon)) {
		return fmt.Sprint("ends ", end.GetSeconds())
	}
	return ""
}

// changes returns the connections that are not as they were reported, and notes how they are. One that no
// longer is about to end its credential is no news: its credential was replaced.
func changes(m *memory, all []*subscriptionsv1.ConnectionChange, now time.Time) (out []*subscriptionsv1.ConnectionChange) {
	next := make(map[string]string)
	for _, c := range all {
		if passes(c.GetCause()) {
			c.Cause, c.Reason, c.StartTime = 0, "", nil
		}
		is, was := standing(c, now), m.Standing[c.GetConnectionId()]
		if is != "" {
			next[c.GetConnectionId()] = is
		}
		if is != was && (is != "" || was[0] != 'e') {
			out = append(out, c)
		}
	}
	if len(next) == 0 {
		next = nil
	}
	if !maps.Equal(next, m.Standing) {
		m.Standing = next
	}
	return out
}

// holds makes a notice of connections that changed. write is always true: the time of the next look is.
func (r *Runner) holds(ctx context.Context, d store.DueSubscription, p *store.SubscriptionStep, spec *Spec) (write, more bool, err error) {
	s := &p.Subscription
	mem, err := readMemory(d.Subscription)
	if err != nil {
		return false, false, err
	}
	all, err := r.cfg.Wire.NoticeConnections(ctx, s.Project, spec.connections, spec.Stated.GetIncludeContent())
	if err != nil {
		return false, false, err
	}
	changed := changes(&mem, all, d.Now)
	s.Memory, s.Next, s.OnlyThen = mem.encode(), d.Now.Add(holdLook), true
	if len(changed) == 0 {
		return true, false, nil
	}
	data := r.data(s, store.NoticeConnections, s.Number+1)
	data.Connections = changed
	data.AfterCursor = r.cfg.Wire.NoticeCursor(s.Project, s.Incarnation, s.Position)
	data.Cursor = data.GetAfterCursor()
	p.Notice = &store.Notice{Kind: store.NoticeConnections, After: s.Position, To: s.Position, Events: int64(len(changed))}
	l, err := r.write(d, data)
	if err != nil {
		return false, false, err
	}
	return true, false, r.carry(d, p, l)
}

// ReportsItself reports whether a subscription is to report the holds of the connection that sends its
// notices, which is then on hold.
func ReportsItself(stated *subscriptionsv1.Subscription, conn job.ID) bool {
	for _, id := range stated.GetFilter().GetConnectionIds() {
		if stated.GetFilter().GetHolds() && id == conn.String() {
			return true
		}
	}
	return false
}

// remedies are what the owner of a connection does, who need not know this service.
var remedies = map[fireoncev1.ConnectionStateCause][2]string{
	fireoncev1.ConnectionStateCause_CONNECTION_STATE_CAUSE_CREDENTIAL_MISSING: {"has no credential", "Connect the account."},
	fireoncev1.ConnectionStateCause_CONNECTION_STATE_CAUSE_CREDENTIAL_REFUSED: {"is refused by the platform", "Log in again, or replace its key or password."},
	fireoncev1.ConnectionStateCause_CONNECTION_STATE_CAUSE_CREDENTIAL_EXPIRED: {"has a login that has expired", "Log in again, or replace its key or password."},
	fireoncev1.ConnectionStateCause_CONNECTION_STATE_CAUSE_LOGIN_ENDED:        {"is logged out", "Log in again."},
	fireoncev1.ConnectionStateCause_CONNECTION_STATE_CAUSE_RENEWAL_LOST:       {"has a login that could not be renewed", "Log in again. Nobody has revoked it."},
	fireoncev1.ConnectionStateCause_CONNECTION_STATE_CAUSE_PERMISSION_MISSING: {"lacks a right that it needs", "Log in again, and grant all rights that are asked for."},
	fireoncev1.ConnectionStateCause_CONNECTION_STATE_CAUSE_ACCOUNT_BARRED: {
		"is suspended or locked at the platform", "Settle that at the platform, then log in again.",
	},
	fireoncev1.ConnectionStateCause_CONNECTION_STATE_CAUSE_ACCOUNT_MISMATCH: {"has the login of another account", "Log in with the right account."},
	fireoncev1.ConnectionStateCause_CONNECTION_STATE_CAUSE_PAUSED:           {"is paused by a person", "It goes on when somebody resumes it."},
	fireoncev1.ConnectionStateCause_CONNECTION_STATE_CAUSE_DELETED:          {"was deleted", ""},
}

// stands returns how a connection is, and what to do.
func stands(c *subscriptionsv1.ConnectionChange) (is, remedy string) {
	if words, known := remedies[c.GetCause()]; known {
		return words[0], words[1]
	}
	switch {
	case c.GetCause() != 0:
		return "sends nothing", ""
	case c.GetCredentialExpireTime() != nil:
		return "has a login that ends at " + minute(c.GetCredentialExpireTime().AsTime()), "Log in again before that."
	default:
		return "works again", ""
	}
}

// account is how people know a connection.
func account(c *subscriptionsv1.ConnectionChange) string {
	for _, name := range []string{c.GetDisplayName(), c.GetAccountIdentity(), c.GetConnectionKey()} {
		if name != "" {
			return name
		}
	}
	return c.GetConnectionId()
}

// connectionWords returns the subject line of a notice of connections, and its words.
func connectionWords(n *subscriptionsv1.NoticeData) (subject, text string) {
	for i, c := range n.GetConnections() {
		is, remedy := stands(c)
		if i == 0 {
			subject = account(c) + " " + is
		}
		text += "- " + account(c) + " " + is
		if c.GetStartTime() != nil {
			text += ", since " + minute(c.GetStartTime().AsTime())
		}
		if c.GetCause() != 0 && remedy != "" {
			text += ". What is to be sent by it waits"
		}
		text += "."
		if remedy != "" {
			text += " " + remedy
		}
		if c.GetReason() != "" && c.GetReason() != remedy {
			text += " (" + c.GetReason() + ")"
		}
		text += "\n"
	}
	if more := len(n.GetConnections()) - 1; more > 0 {
		subject += fmt.Sprintf(", and %d others changed", more)
	}
	return subject, text
}
