package client

import (
	"slices"
	"strconv"

	fireoncev1 "github.com/fireonce/fireonce/gen/fireonce/v1"
	"github.com/fireonce/fireonce/internal/connector/builtin"

	"github.com/fireonce/fireonce/cmd/fireonce/internal/duration"
)

func (p *printer) connection(c *fireoncev1.Connection) {
	p.fields(slices.Concat([]string{
		"Connection", c.GetConnectionId(),
		"Name", c.GetDisplayName(),
		"Key", c.GetIdempotencyKey(),
		"Connector", c.GetConnector(),
		"Labels", labelsLine(c.GetLabels()),
		"State", words(c.GetState().String(), "CONNECTION_STATE_"),
		"Cause", causeName(c.GetStateCause()),
		"Because", c.GetStateReason(),
		"Class", words(c.GetEffectClass().String(), "EFFECT_CLASS_"),
	}, shownSettings(c), []string{
		"Account", c.GetAccountIdentity(),
		"Credential", credentialLine(c),
		"In flight", limit(c.GetLimits().GetMaxInFlight()),
		"Per minute", limit(c.GetLimits().GetMaxPerMinute()),
		"Cool-down", coolDown(c.GetLimits()),
		"Created", stamp(c.GetCreateTime()),
		"Etag", c.GetEtag(),
	})...)
}

// shownSettings returns labels and values, in turn, of a connection's settings.
func shownSettings(c *fireoncev1.Connection) []string {
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

// coolDown returns the least time between two effects; empty: there is none.
func coolDown(l *fireoncev1.ConnectionLimits) string {
	if l.GetCoolDown().AsDuration() == 0 {
		return ""
	}
	return duration.Format(l.GetCoolDown().AsDuration())
}

// causeName returns why a connection is in its state; empty: no cause.
func causeName(c fireoncev1.ConnectionStateCause) string {
	if c == fireoncev1.ConnectionStateCause_CONNECTION_STATE_CAUSE_UNSPECIFIED {
		return ""
	}
	return words(c.String(), "CONNECTION_STATE_CAUSE_")
}

func credentialLine(c *fireoncev1.Connection) string {
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

func (p *printer) connections(list []*fireoncev1.Connection) {
	const shown = 60
	rows := [][]string{{"CONNECTION", "KEY", "NAME", "CONNECTOR", "CLASS", "STATE", "CAUSE", "NOTE"}}
	for _, c := range list {
		rows = append(rows, []string{
			c.GetConnectionId(), ownKey(c.GetIdempotencyKey()), short(c.GetDisplayName(), 40), c.GetConnector(),
			words(c.GetEffectClass().String(), "EFFECT_CLASS_"), words(c.GetState().String(), "CONNECTION_STATE_"),
			causeName(c.GetStateCause()), short(c.GetStateReason(), shown),
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
