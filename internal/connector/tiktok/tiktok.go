// Package tiktok posts videos and photos with TikTok's Content Posting API
// (docs/platforms/tiktok.md). A post has a name before it is one, which the platform
// can be asked about for as long as it takes: class HANDLE.
package tiktok

import (
	"net/url"
	"time"

	"google.golang.org/protobuf/proto"

	fireoncev1 "github.com/fireonce/fireonce/gen/fireonce/v1"
	"github.com/fireonce/fireonce/internal/cache"
	"github.com/fireonce/fireonce/internal/connector"
	"github.com/fireonce/fireonce/internal/connector/kit"
	"github.com/fireonce/fireonce/internal/connector/transport"
	"github.com/fireonce/fireonce/internal/job"
)

// Name is the connector's name, PayloadKind the kind of payload that it sends.
const (
	Name        = "tiktok"
	PayloadKind = "social_post"
)

const (
	// DefaultBaseURL is where TikTok's API is.
	DefaultBaseURL = "https://open.tiktokapis.com"
	// DefaultReadLag is how long after a write TikTok's status may still show the state
	// before it. Our own value: TikTok documents none.
	DefaultReadLag = time.Minute
	// DefaultStepTime bounds an upload beside its bytes.
	DefaultStepTime = 20 * time.Second
	// DefaultUploadLife is for how long TikTok may take bytes of an upload: one hour
	// (Direct Post, "upload_url"), and ten minutes for its clock and ours.
	DefaultUploadLife = 70 * time.Minute
)

// holdKey is what a rate limit or a refused credential holds: the connection's
// one account.
const holdKey = "account"

// Config makes a Connector.
type Config struct {
	// Sender opens connections, Media fetches the files. Required.
	Sender *transport.Sender
	Media  *kit.Media
	// HTTPSOnly refuses http URLs.
	HTTPSOnly bool
	// BaseURL replaces DefaultBaseURL; for tests.
	BaseURL string
	// ReadLag, StepTime and UploadLife replace the constants of that name; zero keeps
	// them, negative means none.
	ReadLag, StepTime, UploadLife time.Duration
	// Now returns this process's time; nil means time.Now.
	Now func() time.Time
}

// Connector is the TikTok connector. It is safe for concurrent use.
type Connector struct {
	sender        *transport.Sender
	media         *kit.Media
	httpsOnly     bool
	base          *url.URL // nil: not usable
	lag, stepTime time.Duration
	uploadLife    time.Duration
	now           func() time.Time
	creators      *cache.TTL[creatorKey, creator]
}

var (
	_ connector.Poller   = (*Connector)(nil)
	_ connector.Observer = (*Connector)(nil)
	_ connector.Tester   = (*Connector)(nil)
	_ connector.Uploader = (*session)(nil)
)

// New makes the connector.
func New(c Config) *Connector {
	out := &Connector{
		sender: c.Sender, media: c.Media, httpsOnly: c.HTTPSOnly, now: c.Now,
		lag: or(c.ReadLag, DefaultReadLag), stepTime: or(c.StepTime, DefaultStepTime),
		uploadLife: or(c.UploadLife, DefaultUploadLife),
	}
	if out.now == nil {
		out.now = time.Now
	}
	out.creators = cache.New[creatorKey, creator](cache.Options{Max: maxCreators, Age: creatorAge, Timeout: readTimeout, Now: out.now})
	if c.BaseURL == "" {
		c.BaseURL = DefaultBaseURL
	}
	if u, err := transport.ParseURL(c.BaseURL); err == nil {
		out.base = u
	}
	return out
}

func or(d, otherwise time.Duration) time.Duration {
	if d == 0 {
		return otherwise
	}
	return max(d, 0)
}

// Describe implements connector.Connector.
func (*Connector) Describe() connector.Description {
	return connector.Description{
		Name:               Name,
		Payloads:           []string{PayloadKind},
		Credentials:        []string{"oauth2", "bearer_token"},
		CredentialRequired: true,
		Classes:            []job.Class{job.Handle},
		Promise: "Videos and photos. A file that is uploaded here is posted once: each upload has a name, which is kept before the " +
			"first byte and asked about until TikTok has posted it or said why not. If TikTok is to fetch the file itself and its " +
			"answer gets lost, nobody can tell whether it will, and the job's policy decides.",
	}
}

// settings checks a connection's.
func (c *Connector) settings(encoded []byte) (fireoncev1.TikTokSettings_Source, error) {
	var s fireoncev1.TikTokSettings
	if err := proto.Unmarshal(encoded, &s); err != nil {
		return 0, badSettings("", "not readable")
	}
	if c.base == nil {
		return 0, badSettings("", "this server's address of TikTok is not usable")
	}
	switch s.GetSource() {
	case fireoncev1.TikTokSettings_SOURCE_UNSPECIFIED, fireoncev1.TikTokSettings_SOURCE_FILE_UPLOAD:
		return fireoncev1.TikTokSettings_SOURCE_FILE_UPLOAD, nil
	case fireoncev1.TikTokSettings_SOURCE_PULL_FROM_URL:
		return s.GetSource(), nil
	default:
		return 0, badSettings(".source", "must be FILE_UPLOAD or PULL_FROM_URL")
	}
}

func badSettings(field, msg string) error {
	return &connector.InputError{Reason: connector.BadSettings, Field: "settings.tiktok" + field, Msg: msg}
}

func openAuth(c connector.Credential) (kit.Auth, error) {
	auth, err := kit.OpenAuth(c, kit.AuthOAuth2|kit.AuthBearer)
	if err == nil && len(auth.Headers) == 0 {
		err = &connector.InputError{Reason: connector.BadCredential, Field: "credential", Msg: "TikTok needs an access token"}
	}
	return auth, err
}

// Check implements connector.Connector.
func (c *Connector) Check(encoded []byte, cred connector.Credential) (connector.Capability, error) {
	traits, err := c.Traits(encoded)
	if err != nil {
		return connector.Capability{}, err
	}
	if _, err := connector.Opened(cred, openAuth); err != nil {
		return connector.Capability{}, err
	}
	return connector.Capability{Traits: traits}, nil
}

// Traits implements connector.Settler.
func (c *Connector) Traits(encoded []byte) (job.Traits, error) {
	if _, err := c.settings(encoded); err != nil {
		return job.Traits{}, err
	}
	return job.Traits{Class: job.Handle, ReadLag: c.lag, Negatives: 1}, nil
}

// Prepare implements connector.Connector.
func (c *Connector) Prepare(r connector.Request) (connector.Prepared, error) {
	if r.PayloadKind != PayloadKind {
		return connector.Prepared{}, &connector.InputError{
			Reason: connector.PayloadMismatch, Field: "payload", Msg: "the connector tiktok sends social posts only",
		}
	}
	source, err := c.settings(r.Settings)
	if err != nil {
		return connector.Prepared{}, err
	}
	var p fireoncev1.Payload
	if err := proto.Unmarshal(r.Payload, &p); err != nil || p.GetSocialPost() == nil {
		return connector.Prepared{}, badPayload("", "not readable as a social post")
	}
	if r.ReplyTo != "" {
		return connector.Prepared{}, badPayload("", "a post on TikTok cannot reply to another one")
	}
	post, err := read(p.GetSocialPost(), source)
	if err != nil {
		return connector.Prepared{}, err
	}
	if c.httpsOnly && post.plain() {
		return connector.Prepared{}, badPayload(".media", "the URL must start with https://")
	}
	out := connector.Prepared{HoldKey: holdKey, Frozen: post.freeze()}
	if post.fetched() {
		out.OpenTime = job.MaxOpenTimeout
	}
	return out, nil
}
