package tiktok

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/fireonce/fireonce/internal/connector"
	"github.com/fireonce/fireonce/internal/connector/kit"
	"github.com/fireonce/fireonce/internal/connector/lookup"
	"github.com/fireonce/fireonce/internal/connector/transport"
	"github.com/fireonce/fireonce/internal/job"
)

// uploadRate is the slowest upload that is waited for, in bytes a second.
const uploadRate = 256 << 10

// Open implements connector.Connector.
func (c *Connector) Open(ctx context.Context, o connector.Opening) (connector.Session, error) {
	post, err := thaw(o.Prepared.Frozen)
	if err != nil {
		return nil, kit.UnreadableFrozen("post", err)
	}
	_, auth, err := c.Account(o)
	if err != nil {
		return nil, err
	}
	cr, err := c.creator(ctx, o, auth)
	if err != nil {
		return nil, fmt.Errorf("open tiktok: %w", err)
	}
	if err := cr.allows(post); err != nil {
		return nil, err
	}
	local, err := lookup.LocalClock(ctx, o, c.cfg.Now)
	if err != nil {
		return nil, err
	}
	asset, err := c.fetch(ctx, post)
	if err != nil {
		return nil, err
	}
	base, err := kit.Endpoint(c.cfg.BaseURL, "", nil)
	if err != nil {
		return nil, err
	}
	conn, err := c.cfg.Sender.Open(ctx, transport.TargetOf(base), true)
	if err != nil {
		if asset != nil {
			asset.Close()
		}
		return nil, fmt.Errorf("open tiktok: %w", err)
	}
	return &session{
		Link: kit.Link{Conn: conn, Version: o.Credential.Version}, c: c, auth: auth, post: post, asset: asset, local: local,
	}, nil
}

// fetch returns the file of an upload. It reads a file that TikTok fetches itself only
// if the payload has its digest, and releases it again: the host is responsible for
// serving the same file a moment later.
func (c *Connector) fetch(ctx context.Context, post content) (*kit.Asset, error) {
	for _, m := range post.Media {
		if post.Source == sourcePull && len(m.SHA256) == 0 {
			continue
		}
		asset, err := c.cfg.Media.Fetch(ctx, m.ref(), 0)
		if err != nil {
			return nil, fmt.Errorf("fetch media: %w", err)
		}
		if post.Source == sourceUpload {
			if !slices.Contains(videoTypes, asset.Type) {
				asset.Close()
				return nil, &connector.Refusal{Kind: job.FailPermanent, Msg: transport.Clean("TikTok takes videos as MP4, MOV or WebM; the file is "+
					asset.Type, transport.MaxMessage)}
			}
			return asset, nil
		}
		asset.Close()
	}
	return nil, nil
}

// session is one connection with one post for it.
type session struct {
	kit.Link

	c     *Connector
	auth  kit.Auth
	post  content
	asset *kit.Asset       // nil: TikTok fetches
	local func() time.Time // see lookup.LocalClock
}

// Close implements connector.Session.
func (s *session) Close() {
	s.Link.Close()
	if s.asset != nil {
		s.asset.Close()
	}
}

// SendTime implements connector.Uploader.
func (s *session) SendTime() time.Duration {
	if s.asset == nil {
		return 0
	}
	return s.c.cfg.StepTime + time.Duration(s.asset.Size/uploadRate)*time.Second
}
