package kit

import (
	"context"
	"fmt"
	"strings"

	"github.com/fireonce/fireonce/clients/go/fireoncev1"
	"github.com/fireonce/fireonce/internal/connector"
	"github.com/fireonce/fireonce/internal/connector/transport"
	"github.com/fireonce/fireonce/internal/job"
)

// MediaRule is what a platform takes of the files that a post refers to.
type MediaRule struct {
	// Most bounds the files of a post, Bytes one of them.
	Most  int
	Bytes int64
	// Takes reports whether it takes files of a media type, Names names those types for a user:
	// "images".
	Takes func(mediaType string) bool
	Names string
}

// Check checks what can be known of files before they are fetched.
func (r MediaRule) Check(m *Media, refs []*fireoncev1.MediaRef, bad BadInput) error {
	switch {
	case len(refs) == 0:
		return nil
	case m == nil:
		return bad(".media", noMedia)
	case len(refs) > r.Most:
		return bad(".media", fmt.Sprintf("at most %d %s", r.Most, r.Names))
	}
	for i, ref := range refs {
		field := fmt.Sprintf(".media[%d]", i)
		if _, err := transport.ParseURL(ref.GetUrl()); err != nil {
			return bad(field+".url", err.Error())
		}
		if t := ref.GetMediaType(); t != "" && !r.Takes(strings.ToLower(t)) {
			return bad(field+".media_type", "this connector sends "+r.Names+" only")
		}
	}
	return nil
}

// Fetch fetches a file, and refuses one of another type. It fails with *Refusal.
func (r MediaRule) Fetch(ctx context.Context, m *Media, ref *fireoncev1.MediaRef) (*Asset, error) {
	asset, err := m.Fetch(ctx, ref, r.Bytes)
	if err != nil {
		return nil, err
	}
	if !r.Takes(asset.Type) {
		asset.Close()
		return nil, &connector.Refusal{
			Kind: job.FailPermanent,
			Msg:  "this connector sends " + r.Names + " only: a media file is " + transport.Clean(asset.Type, 100),
		}
	}
	return asset, nil
}
