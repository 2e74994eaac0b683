package tiktok

import (
	"context"
	"encoding/json"
	"strings"
	"time"

	"github.com/fireonce/fireonce/internal/connector"
	"github.com/fireonce/fireonce/internal/connector/kit"
	"github.com/fireonce/fireonce/internal/connector/lookup"
	"github.com/fireonce/fireonce/internal/connector/transport"
	"github.com/fireonce/fireonce/internal/job"
)

// platformName is how messages name the platform.
const platformName = "TikTok"

// The API's requests.
const (
	pathCreator = "/v2/post/publish/creator_info/query/"
	pathVideo   = "/v2/post/publish/video/init/"
	pathPhotos  = "/v2/post/publish/content/init/"
	pathStatus  = "/v2/post/publish/status/fetch/"
	pathUser    = "/v2/user/info/?fields=open_id,display_name"
	pathList    = "/v2/video/list/?fields=id,create_time,title,video_description"
)

// readTimeout bounds one request that only reads.
const readTimeout = 15 * time.Second

// call is the request of one path. A nil body asks with GET.
func (c *Connector) call(auth kit.Auth, path string, body any) kit.Call {
	return kit.Call{Base: c.cfg.BaseURL, Path: path, Auth: auth, Body: body, ContentType: "application/json; charset=UTF-8"}
}

// ask makes a request that only reads, and returns its data. It fails with
// *connector.Refusal.
func (c *Connector) ask(ctx context.Context, auth kit.Auth, path string, body any) (json.RawMessage, error) {
	answer, err := lookup.Ask(ctx, c.cfg.Sender, c.call(auth, path, body), true, "ask tiktok")
	if err != nil {
		return nil, err
	}
	env, ok := open(answer)
	if ok && env.ok() && answer.Status == 200 {
		return env.Data, nil
	}
	return nil, refuse(answer, env, ok, auth.Hidden)
}

// envelope is the form of the API's every answer.
type envelope struct {
	Data  json.RawMessage `json:"data"`
	Error struct {
		Code    string `json:"code"`
		Message string `json:"message"`
	} `json:"error"`
}

func (e envelope) ok() bool { return e.Error.Code == "ok" }

// open reads an answer. false: it is not one of the API's, or not complete.
func open(a transport.Response) (envelope, bool) {
	var e envelope
	if !a.Complete || a.Cut || json.Unmarshal(a.Excerpt, &e) != nil || e.Error.Code == "" {
		return envelope{}, false
	}
	return e, true
}

// refuse returns why a request that only reads failed.
func refuse(a transport.Response, e envelope, ok bool, hidden transport.Secrets) *connector.Refusal {
	r := &connector.Refusal{Kind: job.FailTransient, Msg: transport.Unread(a, platformName, hidden)}
	if !a.Complete {
		return r
	}
	if said, known := judge(a.Status, e, ok); known {
		r.Kind, r.Auth = said.kind, said.auth
		if said.words != "" {
			r.Msg = said.message(e, hidden)
		}
	}
	switch {
	case r.Kind == job.FailRateLimited:
		r.RetryAfter = a.LimitWait(ratePause)
	case strings.HasPrefix(e.Error.Code, "scope_"):
		r.Err = connector.ErrNotAllowed
	}
	return r
}

// ratePause stands in for a limit that does not say how long: they are all by the
// minute (Content Posting API reference).
const ratePause = time.Minute

// accept narrows the default rules for the request that begins a post:
//
//   - the body's code overrules the status ("Error Handling", API v2): a refusal
//     may come with 200, and what is neither "ok" nor known is unknown;
//   - a success is "ok" with a name for the post.
//
// It returns the outcome of everything but that success; then its Result is zero.
func accept(a transport.Response, hidden transport.Secrets) (begun, job.Outcome) {
	o := transport.Classify(a, platformName, hidden)
	env, ok := open(a)
	if o.Result == job.ResultNotSent || !a.Complete {
		return begun{}, o
	}
	said, known := judge(a.Status, env, ok)
	switch {
	case ok && env.ok() && o.Result == job.ResultSucceeded:
		var b begun
		if json.Unmarshal(env.Data, &b) == nil && b.valid() {
			o.Result, o.Kind, o.Message = 0, 0, ""
			return b, o
		}
		transport.Doubt(&o, " without a name for the post; it may have acted")
	case known:
		o.Result, o.Kind, o.Auth, o.RetryAfter = job.ResultRejected, said.kind, said.auth, 0
		if said.words != "" {
			o.Message = said.message(env, hidden)
		}
		if said.kind == job.FailRateLimited {
			transport.Limit(&o, a, ratePause)
		}
	case o.Result == job.ResultSucceeded:
		transport.Doubt(&o, " with an error that is not known; it may have acted")
	case o.Result == job.ResultRejected && ok && env.Error.Code == "internal_error":
		transport.Doubt(&o, "; it may have acted")
	}
	return begun{}, o
}

// begun is the answer to the beginning of a post.
type begun struct {
	ID        string `json:"publish_id"`
	UploadURL string `json:"upload_url"`
}

// maxID bounds the name of a post, in bytes; TikTok documents 64.
const maxID = 256

func (b begun) valid() bool { return validID(b.ID) }

// validID reports whether a text can be the name of a post: no white space, which
// ends it in a handle.
func validID(id string) bool {
	return id != "" && len(id) <= maxID && strings.IndexFunc(id, func(r rune) bool { return r <= ' ' || r >= 0x7f }) < 0
}
