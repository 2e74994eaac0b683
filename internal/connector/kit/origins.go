package kit

import (
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/fireonce/fireonce/internal/connector"
	"github.com/fireonce/fireonce/internal/connector/transport"
)

// MaxOrigins bounds the origins of a connection.
const MaxOrigins = 20

// Origins are the places that a connection's jobs may address; none: any place.
type Origins []transport.Target

// ParseOrigins reads the origins that the owner of a connection names, each scheme,
// host and port without a path. settings is the path of its settings. It fails with
// *InputError.
func ParseOrigins(settings string, named []string) (Origins, error) {
	bad := Bad(connector.BadSettings, settings+".")
	if len(named) > MaxOrigins {
		return nil, bad("origins", fmt.Sprintf("at most %d", MaxOrigins))
	}
	var out Origins
	for i, text := range named {
		field := fmt.Sprintf("origins[%d]", i)
		u, err := transport.ParseURL(text)
		if err != nil {
			return nil, bad(field, err.Error())
		}
		if strings.TrimSuffix(u.EscapedPath(), "/") != "" || u.RawQuery != "" {
			return nil, bad(field, "must be scheme, host and port alone, such as https://api.example.org")
		}
		out = append(out, transport.TargetOf(u))
	}
	return out, nil
}

// CheckSent refuses to send headers of a credential to any place. Secrets that are sent as they
// are go to named origins only: a client that may schedule jobs names their URLs, and must not
// receive a secret that it cannot read. It fails with *InputError.
func (o Origins) CheckSent(settings string, headers []transport.Header) error {
	if len(o) > 0 || len(headers) == 0 {
		return nil
	}
	bad := Bad(connector.BadSettings, settings)
	return bad(".origins", "must name where the credential may be sent, such as https://api.example.org")
}

// Allow reports whether a URL is at one of the places.
func (o Origins) Allow(u *url.URL) bool {
	return len(o) == 0 || slices.Contains(o, transport.TargetOf(u))
}
