// Package fake is what `fireonce sandbox` needs of a platform's fake: what it makes, what it
// refuses, and how a connection leads to it. The package knows no platform;
// internal/connector/builtin/fakes lists them.
package fake

import (
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/fireonce/fireonce/clients/go/connectionsv1"
)

// Fake is the fake of one platform.
type Fake struct {
	// Name is the key of the connection to the fake, and the fake's anchor on the page.
	Name string
	// Connector is the connector of that connection.
	Connector string
	// Title and About are shown on the page: the platform, and how an unknown outcome of a job
	// there is settled.
	Title, About string
	// New makes the fake. Nil: the sandbox starts it itself, since it does not speak HTTP.
	New func(Host) Platform
	// Connection returns a connection to the fake at an address, and its credential.
	Connection func(at string) (*connectionsv1.Connection, *connectionsv1.Credential)
}

// Host is what a fake has from the sandbox.
type Host struct {
	// Now is the fake's clock: the moment of the request that it serves.
	Now func() time.Time
	// Refuse returns what the request that is served is refused with.
	Refuse func() Refusal
	// LimitFor is how long a rate limit lasts.
	LimitFor time.Duration
	// Work is how long the fake works on what takes the platform minutes.
	Work time.Duration
	// UploadLife is how long the fake takes bytes of an upload that has begun.
	UploadLife time.Duration
}

// Platform is a fake that was made. It is a function of the requests that it has served and of
// their moments, so that the sandbox's journal makes it again.
type Platform struct {
	// Handler is the API.
	Handler http.Handler
	// Kind returns what a request is for.
	Kind func(method, path string) Kind
	// Tag joins the request that prepares an effect, by its answer, with the request that has
	// it, by its URI. Nil: one request does both.
	Tag func(uri string, answer []byte) string
	// List returns what the platform has, the oldest first.
	List func() []Thing
	// At receives the fake's URL. Nil: it needs none.
	At func(base string)
}

// Thing is something that a platform has made.
type Thing struct {
	// ID is the platform's name for it, or another name that stays.
	ID string
	// Kind, Text and Note are shown on the page.
	Kind, Text, Note string
}

// Kind is what a request is for.
type Kind int

const (
	// Reads changes nothing.
	Reads Kind = iota
	// Changes changes something invisible, an upload say.
	Changes
	// Prepares begins an effect.
	Prepares
	// Effects has the effect.
	Effects
)

// Post returns the kinds of a platform on which one POST to a path is the effect, and other
// POSTs are uploads.
func Post(effect func(path string) bool) func(method, path string) Kind {
	return func(method, path string) Kind {
		switch {
		case method != http.MethodPost:
			return Reads
		case effect(path):
			return Effects
		default:
			return Changes
		}
	}
}

// Refusal is a refusal in the platform's own words, without an effect.
type Refusal int

const (
	// None refuses nothing.
	None Refusal = iota
	// Unauthorized refuses the credential.
	Unauthorized
	// RateLimit asks to wait.
	RateLimit
)

// Of returns the fake's answer for a refusal.
func Of[A any](r Refusal, reply, unauthorized, rateLimit A) A {
	switch r {
	case Unauthorized:
		return unauthorized
	case RateLimit:
		return rateLimit
	default:
		return reply
	}
}

// Bearer is the credential of an account whose fake takes any token.
func Bearer() *connectionsv1.Credential {
	return &connectionsv1.Credential{Kind: &connectionsv1.Credential_BearerToken{BearerToken: &connectionsv1.BearerToken{Token: "sandbox-token"}}}
}

// Path returns a URI's path.
func Path(uri string) string {
	path, _, _ := strings.Cut(uri, "?")
	return path
}

// Form writes a form's body for people. Any other body stays as it is.
func Form(body string) string {
	if text, err := url.QueryUnescape(body); err == nil && !strings.HasPrefix(body, "{") {
		return strings.ReplaceAll(text, "&", " · ")
	}
	return body
}
