package mastodon

import (
	"context"
	"encoding/json"
	"net/url"
	"strings"
	"time"

	"github.com/fireonce/fireonce/clients/go/fireoncev1"
	"github.com/fireonce/fireonce/internal/connector"
	"github.com/fireonce/fireonce/internal/connector/kit"
	"github.com/fireonce/fireonce/internal/connector/lookup"
	"github.com/fireonce/fireonce/internal/connector/transport"
	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/internal/sleep"
)

// Rules of this file: every attempt fetches and uploads its media again. A file that no
// post references is not visible, and the server deletes it. So two attempts reference
// files of different ids. Mastodon does not compare the requests under one key, and a
// look counts a post's files but cannot identify them.

const (
	// openTime is how long fetching, uploading and processing them may take.
	openTime = 5 * time.Minute
	// processWait is how long lies between two questions whether a file is ready.
	processWait = time.Second
)

// files are those that are sent. Servers have limits of their own, 16 MiB for images and 99 MiB for
// videos mostly (see mediaRule).
var files = kit.MediaRule{Most: 4, Bytes: 100 << 20, Takes: isMedia, Names: "images, videos and audio"}

func isMedia(mediaType string) bool {
	kind, _, _ := strings.Cut(mediaType, "/")
	return kind == "image" || kind == "video" || kind == "audio"
}

// attach uploads the files, and returns their ids. It fails with *connector.Refusal.
func (c *Connector) attach(ctx context.Context, a account, refs []*fireoncev1.MediaRef) ([]string, error) {
	var ids []string
	for _, ref := range refs {
		id, ready, err := c.upload(ctx, a, ref)
		if err != nil {
			return nil, err
		}
		for !ready {
			if ready, err = c.ready(ctx, a, id); err != nil {
				return nil, err
			}
		}
		ids = append(ids, id)
	}
	return ids, nil
}

// upload sends one file to the server. ready reports whether it needs no more
// processing.
func (c *Connector) upload(ctx context.Context, a account, ref *fireoncev1.MediaRef) (id string, ready bool, err error) {
	asset, err := c.mediaRule(a, ref).Fetch(ctx, c.cfg.Media, ref)
	if err != nil {
		return "", false, err
	}
	defer asset.Close()
	u, err := kit.Endpoint(a.base.String(), "/api/v2/media", nil)
	if err != nil {
		return "", false, err
	}
	var fields []kit.FormField
	if alt := ref.GetAltText(); alt != "" {
		fields = append(fields, kit.FormField{Name: "description", Value: alt})
	}
	call, err := kit.Form(u, a.auth, fields, kit.FormFile{Name: "file", FileName: "file", Type: asset.Type, Asset: asset})
	if err != nil {
		return "", false, err
	}
	answer, err := lookup.Exchange(ctx, c.cfg.Sender, call, true, openTime, "ask mastodon")
	if err != nil {
		return "", false, err
	}
	if answer.Complete && answer.Sent && (answer.Status == 200 || answer.Status == 202) {
		var got struct {
			ID string `json:"id"`
		}
		if json.Unmarshal(answer.Excerpt, &got) != nil || !validID(got.ID) {
			return "", false, &connector.Refusal{Kind: job.FailTransient, Msg: platformName + " took a media file and gave it no id"}
		}
		return got.ID, answer.Status == 200, nil
	}
	return "", false, untaken(answer, a.auth.Hidden)
}

// untaken returns why a file was not taken: a refusal is permanent, except those that
// apply to any request.
func untaken(a transport.Response, secrets transport.Secrets) error {
	err := unread(a, secrets)
	if r, ok := err.(*connector.Refusal); ok && a.Complete && r.Kind == job.FailTransient && a.Status >= 400 && a.Status < 500 && a.Status != 408 { //nolint:errorlint // unread makes it
		r.Kind = job.FailPermanent
		r.Msg = strings.Replace(r.Msg, "could not be read", "did not take a media file", 1)
	}
	return err
}

// ready asks whether a file has been processed, after a while
// (https://docs.joinmastodon.org/methods/media/#get: 206 means not yet).
func (c *Connector) ready(ctx context.Context, a account, id string) (bool, error) {
	if !sleep.For(ctx, processWait) {
		return false, &connector.Refusal{Kind: job.FailTransient, Msg: platformName + " has not processed the media in time", Err: ctx.Err()}
	}
	answer, err := c.get(ctx, a, "/api/v1/media/"+url.PathEscape(id), nil, true)
	if answer.Complete && answer.Status == 206 {
		return false, nil
	}
	if err != nil {
		return false, untaken(answer, a.auth.Hidden)
	}
	return true, nil
}
