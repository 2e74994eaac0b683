// Package tiktok posts videos and photos with TikTok's Content Posting API
// (docs/platforms/tiktok.md). A post has a name before it is one, which the platform
// can be asked about for as long as it takes: class HANDLE.
package tiktok

import (
	"cmp"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/fireonce/fireonce/clients/go/connectionsv1"
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
	kit.Base[connectionsv1.TikTokSettings_Source, kit.Auth]

	cfg      Config
	creators *cache.TTL[creatorKey, creator]
}

var (
	_ connector.Poller   = (*Connector)(nil)
	_ connector.Observer = (*Connector)(nil)
	_ connector.Tester   = (*Connector)(nil)
	_ connector.Uploader = (*session)(nil)
)

// New makes the connector.
func New(c Config) *Connector {
	c.ReadLag, c.StepTime = or(c.ReadLag, DefaultReadLag), or(c.StepTime, DefaultStepTime)
	c.UploadLife, c.BaseURL = or(c.UploadLife, DefaultUploadLife), cmp.Or(c.BaseURL, DefaultBaseURL)
	if c.Now == nil {
		c.Now = time.Now
	}
	traits := job.Traits{Class: job.Handle, ReadLag: c.ReadLag, Negatives: 1}
	out := &Connector{
		cfg:      c,
		creators: cache.New[creatorKey, creator](cache.Options{Max: maxCreators, Age: creatorAge, Timeout: readTimeout, Now: c.Now}),
	}
	out.Base = kit.Base[connectionsv1.TikTokSettings_Source, kit.Auth]{
		ReadSettings: out.readSettings, ReadCredential: kit.OpenToken("TikTok needs an access token"),
		Offers: func(connectionsv1.TikTokSettings_Source) (connector.Capability, error) {
			return connector.Capability{Traits: traits}, nil
		},
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

// readSettings returns the source that a connection states.
func (c *Connector) readSettings(encoded []byte) (connectionsv1.TikTokSettings_Source, error) {
	bad := kit.Bad(connector.BadSettings, "settings.tiktok")
	var s connectionsv1.TikTokSettings
	if err := proto.Unmarshal(encoded, &s); err != nil {
		return 0, bad("", "not readable")
	}
	if _, err := transport.ParseURL(c.cfg.BaseURL); err != nil {
		return 0, bad("", "this server's address of TikTok is not usable")
	}
	switch s.GetSource() {
	case connectionsv1.TikTokSettings_SOURCE_UNSPECIFIED, connectionsv1.TikTokSettings_SOURCE_FILE_UPLOAD:
		return connectionsv1.TikTokSettings_SOURCE_FILE_UPLOAD, nil
	case connectionsv1.TikTokSettings_SOURCE_PULL_FROM_URL:
		return s.GetSource(), nil
	default:
		return 0, bad(".source", "must be FILE_UPLOAD or PULL_FROM_URL")
	}
}

// Prepare implements connector.Connector.
func (c *Connector) Prepare(r connector.Request) (connector.Prepared, error) {
	p, err := kit.ReadPayload(r, "the connector tiktok sends social posts", PayloadKind)
	if err != nil {
		return connector.Prepared{}, err
	}
	source, err := c.ReadSettings(r.Settings)
	if err != nil {
		return connector.Prepared{}, err
	}
	if r.ReplyTo != "" {
		return connector.Prepared{}, badPayload("", "a post on TikTok cannot reply to another one")
	}
	post, err := read(p.GetSocialPost(), source)
	if err != nil {
		return connector.Prepared{}, err
	}
	if c.cfg.HTTPSOnly && post.plain() {
		return connector.Prepared{}, badPayload(".media", "the URL must start with https://")
	}
	out := connector.Prepared{HoldKey: kit.HoldAccount, Frozen: post.freeze()}
	if post.fetched() {
		out.OpenTime = job.MaxOpenTimeout
	}
	return out, nil
}
