package mastodon

import (
	"context"
	"encoding/json"
	"errors"
	"net/url"
	"regexp"
	"strings"

	"github.com/fireonce/fireonce/internal/connector"
	"github.com/fireonce/fireonce/internal/job"
)

// Rules of this file: only Mastodon itself is known to dedupe on Idempotency-Key.
// GoToSocial was seen to make two posts of one key, and Pleroma, Akkoma and others
// speak the API without mentioning it. So a server that does not plainly say that it is
// Mastodon counts as one that does not dedupe.

// Probe implements connector.Prober.
func (c *Connector) Probe(ctx context.Context, o connector.Opening) (job.Traits, error) {
	a, err := c.account(o)
	if err != nil {
		return job.Traits{}, err
	}
	key := a.base.String()
	dedupes, known := c.servers.Get(key)
	if !known {
		if dedupes, err = c.isMastodon(ctx, a); err != nil {
			return job.Traits{}, err
		}
		c.servers.Put(key, dedupes)
	}
	return c.traits(dedupes), nil
}

var (
	// ownVersion is how Mastodon numbers itself, e.g. "4.5.2" or "4.6.0-rc.1". Others
	// say what they are compatible with, and what they are.
	ownVersion = regexp.MustCompile(`^[0-9]+\.[0-9]+\.[0-9]+(-?(alpha|beta|rc)[.0-9]*|-nightly\.[0-9-]+)?$`)
	// ownSource is where it claims that its source is.
	ownSource = regexp.MustCompile(`^https://github\.com/(mastodon|tootsuite)/mastodon/?$`)
)

// isMastodon asks the server what it is: the instance in its present form, then in
// the old one together with NodeInfo (http://nodeinfo.diaspora.software/protocol).
func (c *Connector) isMastodon(ctx context.Context, a account) (bool, error) {
	instance, there, err := c.readInstance(ctx, a)
	if there || err != nil {
		return instance.isMastodon(), err
	}
	there, err = c.tell(ctx, a, "/api/v1/instance", &instance)
	c.keepLimits(a, instance)
	if !there || err != nil || !ownVersion.MatchString(instance.Version) {
		return false, err
	}
	var index struct {
		Links []struct {
			Rel  string `json:"rel"`
			Href string `json:"href"`
		} `json:"links"`
	}
	if there, err = c.tell(ctx, a, "/.well-known/nodeinfo", &index); !there || err != nil {
		return false, err
	}
	for _, l := range index.Links {
		u, err := url.Parse(l.Href)
		if err != nil || !strings.HasPrefix(l.Rel, "http://nodeinfo.diaspora.software/ns/schema/2.") || u.Host != a.base.Host {
			continue
		}
		var info struct {
			Software struct {
				Name string `json:"name"`
			} `json:"software"`
		}
		there, err := c.tell(ctx, a, u.EscapedPath(), &info)
		return there && info.Software.Name == "mastodon", err
	}
	return false, nil
}

// tell reads a document. there is false if the server has no readable one; a server
// that cannot be asked now is an error, and proves nothing about what it is.
func (c *Connector) tell(ctx context.Context, a account, path string, into any) (there bool, err error) {
	answer, err := c.get(ctx, a, path, nil, true)
	if answer.Complete && (answer.Status == 404 || answer.Status == 410 || answer.Status == 501) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	err = json.Unmarshal(answer.Excerpt, into)
	var odd *json.UnmarshalTypeError
	return err == nil || errors.As(err, &odd) && odd.Field != "", nil // one odd field takes nothing from the others
}
