package smtptest

import (
	"net/netip"

	"github.com/fireonce/fireonce/clients/go/connectionsv1"
	"github.com/fireonce/fireonce/internal/connector/platform/fake"
)

// Fake returns the entry of internal/connector/builtin/fakes.
func Fake() fake.Fake {
	return fake.Fake{
		Name: "mail", Connector: "smtp", Title: "Mail relay",
		About: "Speaks SMTP. It cannot be asked what it has: an unknown outcome is a person's to decide, or the job's policy's.",
		Connection: func(at string) (*connectionsv1.Connection, *connectionsv1.Credential) {
			addr := netip.MustParseAddrPort(at)
			return &connectionsv1.Connection{Connector: "smtp", Settings: &connectionsv1.Connection_Smtp{Smtp: &connectionsv1.SmtpSettings{
				Host: addr.Addr().String(), Port: int32(addr.Port()), Security: connectionsv1.SmtpSettings_SECURITY_NONE,
			}}}, nil
		},
	}
}
