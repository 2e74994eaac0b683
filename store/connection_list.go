package store

import (
	"slices"
	"time"

	"github.com/fireonce/fireonce/internal/job"
)

// MaxConnectionScan bounds the connections that one ListConnections looks at.
const MaxConnectionScan = 10_000

// ConnectionState is what keeps a connection's jobs from starting. Where several reasons
// hold, the first of ConnectionDeleted, ConnectionAuthHold, ConnectionPaused and
// ConnectionRateLimited counts. The numbers are the contract's, and the engines' queries use
// them.
type ConnectionState int

// The states of a connection.
const (
	ConnectionActive ConnectionState = iota + 1
	ConnectionPaused
	ConnectionAuthHold
	ConnectionRateLimited
	ConnectionDeleted
)

// State returns the state at now.
func (c Connection) State(now time.Time) ConnectionState {
	switch {
	case !c.Deleted.IsZero():
		return ConnectionDeleted
	case !c.AuthHoldAt.IsZero():
		return ConnectionAuthHold
	case !c.PausedAt.IsZero():
		return ConnectionPaused
	case c.RateLimitedUntil.After(now):
		return ConnectionRateLimited
	default:
		return ConnectionActive
	}
}

// ConnectionQuery selects connections of a project. Zero fields select all; a list
// selects the connections that match one of its values.
type ConnectionQuery struct {
	Project string
	// Deleted selects deleted connections too. It is ignored where States are named.
	Deleted     bool
	States      []ConnectionState
	Connectors  []string
	Connections []job.ID
	Keys        []string
	// Labels must all match.
	Labels          map[string]string
	AccountIdentity string
	// Text is contained in the display name, the account's identity or the key.
	// Letters A to Z match in either case.
	Text string
	// ExpiresBefore selects connections whose credential is known to end before this time.
	ExpiresBefore time.Time

	// CredentialRequired are connectors whose connections count as ConnectionAuthHold
	// while they have no credential.
	CredentialRequired []string

	// After is the last connection of the page before; zero: from the top.
	After job.ID
	Limit int
	// Scan bounds the connections that are looked at; 0: MaxConnectionScan.
	Scan int
}

// MaxScan returns the bound that Scan means.
func (q ConnectionQuery) MaxScan() int {
	if q.Scan <= 0 {
		return MaxConnectionScan
	}
	return min(q.Scan, MaxConnectionScan)
}

// StateOf returns the state of a connection as the query counts it.
func (q ConnectionQuery) StateOf(c Connection, now time.Time) ConnectionState {
	if c.Deleted.IsZero() && c.CredentialVersion == 0 && slices.Contains(q.CredentialRequired, c.Connector) {
		return ConnectionAuthHold
	}
	return c.State(now)
}

// ConnectionPage is one page, newest connection first. It may have fewer connections than the
// limit, or none, even if more follow.
type ConnectionPage struct {
	Connections []Connection
	// Next is the connection to read on after; zero: there are no more.
	Next job.ID
}
