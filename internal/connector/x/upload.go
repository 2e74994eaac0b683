package x

import (
	"context"
	"slices"
	"time"

	"github.com/fireonce/fireonce/clients/go/fireoncev1"
	"github.com/fireonce/fireonce/internal/connector"
	"github.com/fireonce/fireonce/internal/connector/kit"
	"github.com/fireonce/fireonce/internal/connector/lookup"
	"github.com/fireonce/fireonce/internal/connector/transport"
	"github.com/fireonce/fireonce/internal/job"
)

const (
	pathUpload   = "/2/media/upload"
	pathMetadata = "/2/media/metadata"
	// openTime is how long fetching and uploading pictures may take.
	openTime = 2 * time.Minute
)

// upload sends the pictures to X, and returns X's ids of them. It runs before the arm,
// again for each attempt: an id is valid for a day. It fails with *connector.Refusal;
// any other error is transient.
func (c *Connector) upload(ctx context.Context, auth kit.Auth, refs []*fireoncev1.MediaRef) ([]string, error) {
	var ids []string
	for _, ref := range refs {
		id, err := c.picture(ctx, auth, ref)
		if err != nil {
			return nil, err
		}
		if alt := ref.GetAltText(); alt != "" {
			if err := c.describe(ctx, auth, id, alt); err != nil {
				return nil, err
			}
		}
		ids = append(ids, id)
	}
	return ids, nil
}

// picture fetches a picture and uploads it in one piece.
func (c *Connector) picture(ctx context.Context, auth kit.Auth, ref *fireoncev1.MediaRef) (string, error) {
	file, err := pictures.Fetch(ctx, c.cfg.Media, ref)
	if err != nil {
		return "", err
	}
	defer file.Close()
	u, err := kit.Endpoint(c.cfg.BaseURL, pathUpload, nil)
	if err != nil {
		return "", err
	}
	fields := []kit.FormField{{Name: "media_category", Value: "tweet_image"}, {Name: "media_type", Value: file.Type}}
	call, err := kit.Form(u, auth, fields,
		kit.FormFile{Name: "media", FileName: "picture", Type: "application/octet-stream", Asset: file})
	if err != nil {
		return "", err
	}
	answer, err := c.put(ctx, auth, call)
	if err != nil {
		return "", err
	}
	id, ok := parseCreated(answer, false)
	if !ok {
		return "", &connector.Refusal{Kind: job.FailTransient, Msg: "X took a picture and gave no id for it"}
	}
	return id, nil
}

// describe sets a picture's text for people who cannot see it.
func (c *Connector) describe(ctx context.Context, auth kit.Auth, id, alt string) error {
	type text struct {
		Text string `json:"text"`
	}
	type metadata struct {
		Alt text `json:"alt_text"`
	}
	call, err := kit.Call{Base: c.cfg.BaseURL, Path: pathMetadata, Auth: auth, Body: struct {
		ID       string   `json:"id"`
		Metadata metadata `json:"metadata"`
	}{id, metadata{text{alt}}}}.Request()
	if err == nil {
		_, err = c.put(ctx, auth, call)
	}
	return err
}

// put makes one request that prepares a post.
func (c *Connector) put(ctx context.Context, auth kit.Auth, call transport.Request) ([]byte, error) {
	a, err := lookup.Read(ctx, c.cfg.Sender, call, true, asking)
	if err != nil {
		return nil, err
	}
	switch {
	case a.Complete && a.Sent && (a.Status == 200 || a.Status == 201):
		return a.Excerpt, nil
	case a.Complete && slices.Contains([]int{400, 413, 415, 422}, a.Status):
		return nil, &connector.Refusal{Kind: job.FailPermanent, Msg: problemOf(a).quote("X does not take this picture", auth.Hidden)}
	}
	if err := unread(a, auth.Hidden); err != nil {
		return nil, err
	}
	return nil, &connector.Refusal{Kind: job.FailTransient, Msg: "X answered before it had the whole picture"}
}
