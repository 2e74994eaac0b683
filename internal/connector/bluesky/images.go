package bluesky

import (
	"context"
	"encoding/base32"
	"encoding/json"
	"strings"
	"time"

	"github.com/fireonce/fireonce/clients/go/fireoncev1"
	"github.com/fireonce/fireonce/internal/connector"
	"github.com/fireonce/fireonce/internal/connector/kit"
	"github.com/fireonce/fireonce/internal/job"
)

// Rules of this file: every attempt fetches and uploads its images again. An upload
// that no record references is not visible, and the server deletes it. The frozen
// request holds the images' URLs. If a host serves another file at a later attempt, the
// record differs, and the server refuses it if the first record is there.

// Limits of images (lexicon app.bsky.embed.images).
const (
	// MaxImages bounds the images of a post, MaxImage the bytes of one.
	MaxImages = 4
	MaxImage  = 1000000
	// openTime is how long fetching and uploading them may take.
	openTime = 2 * time.Minute
)

const methodUpload = "com.atproto.repo.uploadBlob"

// embed is what a post shows below its text: a quote, images or a card, or a quote with one of these.
type embed struct {
	Type     string          `json:"$type"`
	Record   json.RawMessage `json:"record,omitempty"`
	Media    *embed          `json:"media,omitempty"`
	Images   []image         `json:"images,omitempty"`
	External *external       `json:"external,omitempty"`
}

const (
	typeQuote  = "app.bsky.embed.record"
	typeImages = "app.bsky.embed.images"
	typeCard   = "app.bsky.embed.external"
	typeBoth   = "app.bsky.embed.recordWithMedia"
)

type image struct {
	Alt  string          `json:"alt"`
	Blob json.RawMessage `json:"image"`
}

// images are the files that are sent.
var images = kit.MediaRule{
	Most: MaxImages, Bytes: MaxImage, Names: "images", Takes: func(mediaType string) bool { return strings.HasPrefix(mediaType, "image/") },
}

// show uploads the post's images, or makes its card, and puts them into its record.
func (c *Connector) show(ctx context.Context, in login, q *post) error {
	all, err := c.below(ctx, in, q)
	if err != nil || all == nil {
		return err
	}
	if q.record.Embed == nil {
		q.record.Embed = all
		return nil
	}
	quoted, err := json.Marshal(q.record.Embed)
	if err != nil {
		return &connector.Refusal{Kind: job.FailPermanent, Msg: "the stored post cannot be encoded", Err: err}
	}
	q.record.Embed = &embed{Type: typeBoth, Record: quoted, Media: all}
	return nil
}

// below returns the images or the card of a post; nil: it has none.
func (c *Connector) below(ctx context.Context, in login, q *post) (*embed, error) {
	switch {
	case q.card.URI != "":
		return c.ownCard(ctx, in, q)
	case len(q.media) == 0:
		return c.foundCard(ctx, in, q.link), nil
	}
	all := &embed{Type: typeImages}
	for _, ref := range q.media {
		blob, err := c.upload(ctx, in, ref)
		if err != nil {
			return nil, err
		}
		all.Images = append(all.Images, image{Alt: ref.GetAltText(), Blob: blob})
	}
	return all, nil
}

// upload fetches one image and uploads it to the server. It checks the name that the
// server returns: the name follows from the bytes.
func (c *Connector) upload(ctx context.Context, in login, ref *fireoncev1.MediaRef) (json.RawMessage, error) {
	asset, err := images.Fetch(ctx, c.cfg.Media, ref)
	if err != nil {
		return nil, err
	}
	defer asset.Close()
	a, err := c.ask(ctx, in.base, question{
		method: methodUpload, token: in.access, post: true, contentType: asset.Type, body: asset.Reader(), length: asset.Size,
	})
	if err != nil {
		return nil, err
	}
	if err := c.refusedTo(in, a); err != nil {
		return nil, err
	}
	var got struct {
		Blob json.RawMessage `json:"blob"`
	}
	var blob struct {
		Type string `json:"$type"`
		Ref  struct {
			Link string `json:"$link"`
		} `json:"ref"`
		Size int64 `json:"size"`
	}
	if json.Unmarshal(a.Excerpt, &got) != nil || json.Unmarshal(got.Blob, &blob) != nil || blob.Type != "blob" ||
		blob.Ref.Link != cidOf(asset.SHA256) || blob.Size != asset.Size {
		return nil, &connector.Refusal{Kind: job.FailTransient, Msg: platformName + " took an image, but not the one that was sent"}
	}
	return got.Blob, nil
}

// cidOf is the CID of raw bytes with this digest: version 1, raw, SHA-256, in base 32
// (https://github.com/multiformats/cid).
func cidOf(digest [32]byte) string {
	raw := append([]byte{0x01, 0x55, 0x12, 0x20}, digest[:]...)
	return "b" + strings.ToLower(base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(raw))
}
