package client

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/fireonce/fireonce/clients/go/connectionsv1"
	"github.com/fireonce/fireonce/clients/go/fireoncev1"
	"github.com/fireonce/fireonce/internal/connector/builtin"
)

func (p *printer) connection(c *connectionsv1.Connection) {
	p.fields(slices.Concat([]string{
		"Key", ownKey(c.GetIdempotencyKey()),
		"Name", c.GetDisplayName(),
		"Connector", c.GetConnector(),
		"Labels", labelsLine(c.GetLabels()),
		"State", word(c.GetState()),
		"Cause", word(c.GetStateCause()),
		"Because", c.GetStateReason(),
		"Paused", pausedLine(c),
		"Class", word(c.GetEffectClass()),
	}, shownSettings(c), []string{
		"Account", c.GetAccountIdentity(),
		"Credential", credentialLine(c),
		"In flight", limit(c.GetLimits().GetMaxInFlight()),
		"Per minute", limit(c.GetLimits().GetMaxPerMinute()),
		"Cool-down", span(c.GetLimits().GetCoolDown()),
		"Retries", retryLine(c.GetRetryPolicy()),
		"Created", stamp(c.GetCreateTime()),
		"Connection", c.GetConnectionId(),
		"Etag", c.GetEtag(),
	})...)
}

// pausedLine returns the pause that is in force over a connection; empty: there is none.
func pausedLine(c *connectionsv1.Connection) string {
	if c.GetPauseId() == "" {
		return ""
	}
	return strings.TrimPrefix(c.GetPauseReason(), "Paused: ") + " (" + c.GetPauseId() + ")"
}

// shownSettings returns labels and values, in turn, of a connection's settings.
func shownSettings(c *connectionsv1.Connection) []string {
	m := c.ProtoReflect()
	field := m.WhichOneof(connectionSettings)
	if field == nil {
		return nil
	}
	if p, known := builtin.Find(string(field.Name())); known {
		return shownFields(p.Settings, m.Get(field).Message())
	}
	return []string{"Settings", labelsLine(c.GetCustom().GetValues())}
}

func credentialLine(c *connectionsv1.Connection) string {
	if c.GetCredentialFingerprint() == "" {
		return "none"
	}
	return "fingerprint " + c.GetCredentialFingerprint()
}

func limit(n int32) string {
	if n == 0 {
		return ""
	}
	return "at most " + strconv.Itoa(int(n))
}

func (p *printer) connections(list []*connectionsv1.Connection) {
	const shown = 60
	rows := [][]string{{"KEY", "NAME", "CONNECTOR", "CLASS", "STATE", "CAUSE", "NOTE", "CONNECTION"}}
	for _, c := range list {
		rows = append(rows, []string{
			ownKey(c.GetIdempotencyKey()), short(c.GetDisplayName(), 40), c.GetConnector(),
			word(c.GetEffectClass()), word(c.GetState()),
			word(c.GetStateCause()), short(cmp.Or(c.GetStateReason(), c.GetPauseReason()), shown), c.GetConnectionId(),
		})
	}
	p.table(rows)
}

// ownKey returns a key that a person may have chosen; empty: the key was generated.
func ownKey(key string) string {
	if id, _ := idOrKey(key); id != "" {
		return ""
	}
	return key
}

// retryLine returns what a connection states of how its jobs are tried again; empty: nothing.
func retryLine(r *fireoncev1.RetryPolicy) string {
	var parts []string
	if n := r.GetMaxAttempts(); n > 0 {
		parts = append(parts, fmt.Sprintf("%d attempts", n))
	}
	if len(r.GetDelays()) > 0 {
		waits := make([]string, len(r.GetDelays()))
		for i, d := range r.GetDelays() {
			waits[i] = span(d)
		}
		parts = append(parts, "after "+strings.Join(waits, ", "))
	}
	if first := span(r.GetMinBackoff()); first != "" {
		parts = append(parts, "first after "+first)
	}
	if factor := r.GetMultiplier(); factor > 0 {
		parts = append(parts, fmt.Sprintf("each wait %g times the one before", factor))
	}
	if longest := span(r.GetMaxBackoff()); longest != "" {
		parts = append(parts, "at most "+longest+" apart")
	}
	if keep := span(r.GetKeepTrying()); keep != "" {
		parts = append(parts, "for "+keep)
	}
	return strings.Join(parts, "; ")
}
