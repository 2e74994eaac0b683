// Package platform is what a built-in platform declares of itself beside its connector: how it
// is made, its flags on the command line, where its API is, and how an account logs in to it.
// The package knows no platform; internal/connector/builtin lists them.
package platform

import (
	"time"

	"github.com/fireonce/fireonce/internal/connector"
	"github.com/fireonce/fireonce/internal/connector/kit"
	"github.com/fireonce/fireonce/internal/connector/transport"
)

// Platform is one built-in platform. All fields are constant.
type Platform struct {
	// Name is the connector's name: Connection.connector, and the name of its settings in
	// Connection.settings.
	Name string
	// Title is what people call the platform.
	Title string
	// New makes the connector.
	New func(Env) (connector.Connector, error)
	// Address is where the API is, for a platform that is one service at one address. `serve
	// --platform-url` replaces it. Empty: the address is in the connection's settings, or in the
	// payload.
	Address string
	// Settings are the flags of `connections create` for the connection's settings.
	Settings []Flag
	// Post are the flags of `schedule` for SocialPost.platform_options, whose field has the
	// platform's name.
	Post []Flag
	// Secret is the credential that the flags of `connections create` can name. Any other one
	// comes in --credential-file.
	Secret Secret
	// LaterSecret reports that a connection is stored without a credential, although it can do
	// nothing before it has one.
	LaterSecret bool
	// OAuth is how an account logs in; nil: with a credential only.
	OAuth *OAuth
}

// Env is what connectors are made with.
type Env struct {
	// Sender opens the connections, within the egress rules. Required.
	Sender *transport.Sender
	// Media fetches files. Required.
	Media *kit.Media
	// HTTPSOnly refuses http URLs.
	HTTPSOnly bool
	// BaseURL replaces Platform.Address. Empty: it stays.
	BaseURL string
	// Wait returns how long a connector waits in place of d, before it believes what it reads
	// or repeats a request. A server on real platforms waits for d. Required.
	Wait func(d time.Duration) time.Duration
	// Life returns how long a platform keeps a prepared effect in place of d. Required.
	Life func(d time.Duration) time.Duration
	// Step bounds each request of an attempt that has several. Zero: the connector's own bound.
	Step time.Duration
}

// Secret is a kind of credential that flags can name.
type Secret int

const (
	// Token is a bearer token, by --token-file.
	Token Secret = iota
	// Signing are webhook secrets, by --secret-file.
	Signing
	// Login is a user name and a password, by --user and --password-file.
	Login
	// Other comes in --credential-file only.
	Other
)

// OAuth is how an account of a platform logs in (RFC 6749). The file of an operator's app may
// replace each of its values.
type OAuth struct {
	// LoginURL is the authorization endpoint, ExchangeURL the token endpoint. They are paths where
	// PerServer is set.
	LoginURL, ExchangeURL string
	// PerServer reports that the platform is many servers, each with apps of its own.
	PerServer bool
	// Scopes are all that the connector needs: a later login adds none.
	Scopes []string
	// Separator joins the scopes. Empty: a space.
	Separator string
	// Body sends client id and secret as parameters, and not as HTTP basic authentication.
	Body bool
	// ClientIDParam is the platform's name for client_id. Empty: that.
	ClientIDParam string
	// Refused are error codes that mean invalid_grant, beside it.
	Refused []string
}
