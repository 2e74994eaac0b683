package smtp

import (
	"cmp"
	"encoding/base64"
	"net"
	"strconv"
	"strings"
	"unicode"

	"google.golang.org/protobuf/proto"

	"github.com/fireonce/fireonce/clients/go/connectionsv1"
	"github.com/fireonce/fireonce/internal/connector"
	"github.com/fireonce/fireonce/internal/connector/kit"
	"github.com/fireonce/fireonce/internal/connector/transport"
	"github.com/fireonce/fireonce/internal/redact"
)

// security is how a connection is made private.
type security int

const (
	startTLS security = iota
	implicitTLS
	plain
)

// The usual ports (RFC 6409; RFC 8314, section 7.3).
const (
	submissionPort  = 587
	submissionsPort = 465
)

// settings are a connection's, checked.
type settings struct {
	target   transport.Target
	security security
	helo     string
}

func (c *Connector) settings(encoded []byte) (settings, error) {
	var s connectionsv1.SmtpSettings
	if err := proto.Unmarshal(encoded, &s); err != nil {
		return settings{}, badSettings("", "not readable")
	}
	out := settings{helo: cmp.Or(s.GetHeloName(), c.cfg.HeloName)}
	port, scheme := submissionPort, "smtp"
	switch s.GetSecurity() {
	case connectionsv1.SmtpSettings_SECURITY_UNSPECIFIED, connectionsv1.SmtpSettings_SECURITY_STARTTLS:
		out.security = startTLS
	case connectionsv1.SmtpSettings_SECURITY_TLS:
		out.security, port, scheme = implicitTLS, submissionsPort, "smtps"
	case connectionsv1.SmtpSettings_SECURITY_NONE:
		out.security = plain
		if c.cfg.HTTPSOnly {
			return settings{}, badSettings(".security", "must be SECURITY_STARTTLS or SECURITY_TLS: this server sends nothing without TLS")
		}
	default:
		return settings{}, badSettings(".security", "not a way that this connector knows")
	}
	if s.GetPort() < 0 || s.GetPort() > 65535 {
		return settings{}, badSettings(".port", "must be 0 to 65535")
	}
	if s.GetPort() > 0 {
		port = int(s.GetPort())
	}
	if name, port, err := net.SplitHostPort(s.GetHost()); err == nil && !strings.Contains(name, ":") {
		return settings{}, badSettings(".host", "must be the host alone: write "+name+", and "+port+" into port")
	}
	// The rules for a name that is dialled are the same, whatever the settings.
	u, err := transport.ParseURL("https://" + net.JoinHostPort(s.GetHost(), strconv.Itoa(port)))
	if err != nil || s.GetHost() == "" || u.Path != "/" || u.RawQuery != "" {
		return settings{}, badSettings(".host", "not a host name or an address that can be reached")
	}
	out.target = transport.TargetOf(u)
	out.target.Scheme = scheme
	if strings.Trim(out.helo, heloRunes) != "" || len(out.helo) > 253 {
		return settings{}, badSettings(".helo_name", "not a host name")
	}
	return out, nil
}

const heloRunes = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-"

var badSettings = kit.Bad(connector.BadSettings, "settings.smtp")

// login is an opened credential. It prints as nothing.
type login struct {
	redact.All

	set            bool
	user, password string
	hidden         transport.Secrets
}

func openLogin(c connector.Credential) (login, error) {
	bad := kit.Bad(connector.BadCredential, "credential")
	pb, err := kit.ReadCredential(c)
	if err != nil {
		return login{}, err
	}
	if len(pb.GetHeaders()) > 0 {
		return login{}, bad(".headers", "this connector takes no headers")
	}
	switch kind := pb.GetKind().(type) {
	case nil:
		return login{}, nil
	case *connectionsv1.Credential_Basic:
		l := login{set: true, user: kind.Basic.GetUsername(), password: kind.Basic.GetPassword()}
		if l.user == "" || strings.IndexFunc(l.user+l.password, unicode.IsControl) >= 0 {
			return login{}, bad(".basic", "must have a user name, and no control characters")
		}
		l.hidden = l.hidden.With(l.password, encode(l.password), encode("\x00"+l.user+"\x00"+l.password))
		return l, nil
	default:
		return login{}, bad("", "this connector takes basic, or nothing")
	}
}

func encode(text string) string { return base64.StdEncoding.EncodeToString([]byte(text)) }
