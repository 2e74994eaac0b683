package transport

import (
	"net/url"

	"github.com/fireonce/fireonce/internal/weburl"
)

// ParseURL is weburl.Parse, with which connectors check every URL that a user names. Egress
// decides at the dial whether the address is allowed.
func ParseURL(raw string) (*url.URL, error) { return weburl.Parse(raw) }
