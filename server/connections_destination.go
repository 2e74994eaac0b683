package server

import (
	"cmp"
	"fmt"
	"net"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/fireonce/fireonce/clients/go/connectionsv1"
	"github.com/fireonce/fireonce/internal/weburl"
)

// Rules of this file: a destination is all that decides where a credential arrives: the scheme,
// the host, the port and the path. Another user of a host may own another port or path of it, so
// a destination that differs in any of them is another one.

// namesNewDestination reports whether new settings name a destination that the old ones do not.
// Old settings without any are of a connector that knows its own, or sends no secret as it is.
func namesNewDestination(connectorName string, old, settings []byte) bool {
	known, named := destinationsOf(connectorName, old), destinationsOf(connectorName, settings)
	if len(known) == 0 {
		return false
	}
	return len(named) == 0 || slices.ContainsFunc(named, func(place string) bool { return !slices.Contains(known, place) })
}

// destinationsOf returns the destinations that settings name.
func destinationsOf(connectorName string, settings []byte) []string {
	m := (&connectionsv1.Connection{}).ProtoReflect().NewField(settingsFor(connectorName)).Message()
	if err := proto.Unmarshal(settings, m.Interface()); err != nil {
		return nil
	}
	if relay, ok := m.Interface().(*connectionsv1.SmtpSettings); ok {
		return []string{relayDestination(relay)}
	}
	var out []string
	add := func(v protoreflect.Value) { out = append(out, urlDestination(v.String())) }
	for _, name := range []protoreflect.Name{"base_url", "origins"} {
		switch field := m.Descriptor().Fields().ByName(name); {
		case field == nil:
		case field.IsList():
			for i := range m.Get(field).List().Len() {
				add(m.Get(field).List().Get(i))
			}
		default:
			add(m.Get(field))
		}
	}
	return out
}

// urlDestination spells a URL in one way, as far as its parts have one meaning: as it is sent, with
// the port always there, and the path as it is but for a slash alone.
func urlDestination(text string) string {
	u, err := weburl.Parse(text)
	if err != nil {
		return text
	}
	path, port := u.EscapedPath(), cmp.Or(u.Port(), map[string]string{"http": "80", "https": "443"}[u.Scheme])
	if path == "/" {
		path = ""
	}
	return u.Scheme + "://" + net.JoinHostPort(u.Hostname(), port) + path
}

// The ports of a relay whose settings name none.
const (
	portSubmission  = 587
	portSubmissions = 465
)

// relayDestination is the destination of a mail relay.
func relayDestination(m *connectionsv1.SmtpSettings) string {
	security, port := cmp.Or(m.GetSecurity(), connectionsv1.SmtpSettings_SECURITY_STARTTLS), m.GetPort()
	if port == 0 {
		port = portSubmission
		if security == connectionsv1.SmtpSettings_SECURITY_TLS {
			port = portSubmissions
		}
	}
	host, err := weburl.Host(m.GetHost())
	if err != nil {
		host = strings.ToLower(m.GetHost()) // an IPv6 address
	}
	return fmt.Sprintf("%s %s:%d", security, host, port)
}
