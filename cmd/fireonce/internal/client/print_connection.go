package client

import (
	"slices"
	"strconv"

	"github.com/fireonce/fireonce/clients/go/fireoncev1"
	"github.com/fireonce/fireonce/internal/connector/builtin"
)

func (p *printer) connection(c *fireoncev1.Connection) {
	p.fields(slices.Concat([]string{
		"Key", c.GetIdempotencyKey(),
		"Name", c.GetDisplayName(),
		"Connector", c.GetConnector(),
		"Labels", labelsLine(c.GetLabels()),
		"State", word(c.GetState()),
		"Cause", word(c.GetStateCause()),
		"Because", c.GetStateReason(),
		"Class", word(c.GetEffectClass()),
	}, shownSettings(c), []string{
		"Account", c.GetAccountIdentity(),
		"Credential", credentialLine(c),
		"In flight", limit(c.GetLimits().GetMaxInFlight()),
		"Per minute", limit(c.GetLimits().GetMaxPerMinute()),
		"Cool-down", span(c.GetLimits().GetCoolDown()),
		"Created", stamp(c.GetCreateTime()),
		"Connection", c.GetConnectionId(),
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
	rows := [][]string{{"KEY", "NAME", "CONNECTOR", "CLASS", "STATE", "CAUSE", "NOTE", "CONNECTION"}}
	for _, c := range list {
		rows = append(rows, []string{
			ownKey(c.GetIdempotencyKey()), short(c.GetDisplayName(), 40), c.GetConnector(),
			word(c.GetEffectClass()), word(c.GetState()),
			word(c.GetStateCause()), short(c.GetStateReason(), shown), c.GetConnectionId(),
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
