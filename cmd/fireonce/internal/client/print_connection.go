package client

import (
	"net"
	"strconv"

	"google.golang.org/protobuf/types/known/durationpb"

	fireoncev1 "github.com/fireonce/fireonce/gen/fireonce/v1"
)

func (p *printer) connection(c *fireoncev1.Connection) {
	p.fields(
		"Connection", c.GetConnectionId(),
		"Name", c.GetDisplayName(),
		"Connector", c.GetConnector(),
		"State", words(c.GetState().String(), "CONNECTION_STATE_"),
		"Because", c.GetStateReason(),
		"Class", words(c.GetEffectClass().String(), "EFFECT_CLASS_"),
		"Key window", keyWindow(c),
		"API", c.GetFeed().GetBaseUrl(),
		"Relay", relayLine(c.GetSmtp()),
		"Account", c.GetAccountIdentity(),
		"Credential", credentialLine(c),
		"In flight", limit(c.GetLimits().GetMaxInFlight()),
		"Per minute", limit(c.GetLimits().GetMaxPerMinute()),
		"Created", stamp(c.GetCreateTime()),
		"Etag", c.GetEtag(),
	)
}

func keyWindow(c *fireoncev1.Connection) string {
	for _, w := range []*durationpb.Duration{c.GetWebhook().GetKeyWindow(), c.GetHttp().GetKeyWindow()} {
		if w != nil {
			return w.AsDuration().String()
		}
	}
	return ""
}

func relayLine(s *fireoncev1.SmtpSettings) string {
	if s == nil {
		return ""
	}
	host := s.GetHost()
	if s.GetPort() != 0 {
		host = net.JoinHostPort(host, strconv.Itoa(int(s.GetPort())))
	}
	return host + ", " + words(s.GetSecurity().String(), "SECURITY_")
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
	rows := [][]string{{"CONNECTION", "NAME", "CONNECTOR", "CLASS", "STATE"}}
	for _, c := range list {
		rows = append(rows, []string{
			c.GetConnectionId(), short(c.GetDisplayName(), 40), c.GetConnector(),
			words(c.GetEffectClass().String(), "EFFECT_CLASS_"), words(c.GetState().String(), "CONNECTION_STATE_"),
		})
	}
	p.table(rows)
}
