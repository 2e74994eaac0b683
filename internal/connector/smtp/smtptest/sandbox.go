package smtptest

import (
	"net/netip"

	"github.com/fireonce/fireonce/clients/go/fireoncev1"
	"github.com/fireonce/fireonce/internal/connector/platform/fake"
)

// Fake returns the entry of internal/connector/builtin/fakes.
func Fake() fake.Fake {
	return fake.Fake{
		Name: "mail", Connector: "smtp", Title: "Mail relay",
		About: "Speaks SMTP. It cannot be asked what it has: an unknown outcome is a person's to decide, or the job's policy's.",
		Connection: func(at string) (*fireoncev1.Connection, *fireoncev1.Credential) {
			addr := netip.MustParseAddrPort(at)
			return &fireoncev1.Connection{Connector: "smtp", Settings: &fireoncev1.Connection_Smtp{Smtp: &fireoncev1.SmtpSettings{
				Host: addr.Addr().String(), Port: int32(addr.Port()), Security: fireoncev1.SmtpSettings_SECURITY_NONE,
			}}}, nil
		},
	}
}
