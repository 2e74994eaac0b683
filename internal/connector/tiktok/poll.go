package tiktok

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/fireonce/fireonce/internal/connector"
	"github.com/fireonce/fireonce/internal/connector/lookup"
	"github.com/fireonce/fireonce/internal/connector/transport"
	"github.com/fireonce/fireonce/internal/job"
)

// inboxPause is how often a post is asked about that waits for its creator.
const inboxPause = time.Minute

// handle is a post's name and, for as long as TikTok has not confirmed that the whole
// video is there, its size and when its upload ends for good (by lookup.LocalClock). As text: the name, or
// the three with spaces between them, the time in Unix seconds.
type handle struct {
	id   string
	size int64
	ends time.Time
}

func (h handle) String() string {
	if h.size == 0 {
		return h.id
	}
	return fmt.Sprintf("%s %d %d", h.id, h.size, h.ends.Unix())
}

var errBadHandle = errors.New("the stored name of the post is not readable")

func parseHandle(text string) (handle, error) {
	words := strings.Split(text, " ")
	h := handle{id: words[0]}
	switch {
	case !validID(h.id):
		return handle{}, errBadHandle
	case len(words) == 1:
		return h, nil
	case len(words) != 3:
		return handle{}, errBadHandle
	}
	size, err := strconv.ParseInt(words[1], 10, 64)
	ends, err2 := strconv.ParseInt(words[2], 10, 64)
	if err != nil || err2 != nil || size <= 0 || ends < 0 {
		return handle{}, errBadHandle
	}
	h.size, h.ends = size, time.Unix(ends, 0)
	return h, nil
}

// state is TikTok's answer about a post (Get Post Status).
type state struct {
	Status string `json:"status"`
	Reason string `json:"fail_reason"`
	// IDs are the public post's: numbers in the reference, strings on the wire. They
	// may come long after the post, or never if it is not public.
	IDs      []json.RawMessage `json:"publicaly_available_post_id"` //nolint:misspell // TikTok's spelling
	Uploaded *int64            `json:"uploaded_bytes"`
}

// Poll implements connector.Poller.
func (c *Connector) Poll(ctx context.Context, o connector.Opening, text string) job.Outcome {
	h, err := parseHandle(text)
	if err != nil {
		return unread(err.Error())
	}
	st, err := c.state(ctx, o, h.id)
	if err != nil {
		return unreadable(err)
	}
	out := job.Outcome{HTTPStatus: 200}
	switch st.Status {
	case "PROCESSING_DOWNLOAD":
		out.Result, out.Message = job.ResultAccepted, "TikTok fetches the file"
	case "PROCESSING_UPLOAD":
		if h.size > 0 && st.Uploaded != nil && *st.Uploaded < h.size {
			local, err := lookup.LocalClock(ctx, o, c.cfg.Now)
			if err != nil {
				return unreadable(err)
			}
			if local().After(h.ends) {
				return missing(out, *st.Uploaded, h.size)
			}
		}
		out.Result, out.Message = job.ResultAccepted, "TikTok works on the video"
	case "SEND_TO_USER_INBOX":
		out.Result, out.RetryAfter = job.ResultAccepted, inboxPause
		out.Message = "TikTok has put it into the account's inbox, where its owner has to finish it"
	case "PUBLISH_COMPLETE":
		out.Result, out.ExternalID = job.ResultSucceeded, st.id()
		out.Message = "TikTok has posted it"
	case "FAILED":
		v := failure(st.Reason)
		out.Result, out.Kind, out.Auth, out.Message = job.ResultRejected, v.kind, v.auth, v.words
	default:
		return unread("TikTok says of the post what is not known here: " + st.Status)
	}
	out.Message = transport.Clean(out.Message, transport.MaxMessage)
	return out
}

// missing ends an upload of which TikTok lacks bytes after the time in which it
// takes any. Nothing completes the video any more, so it is not posted.
func missing(o job.Outcome, got, size int64) job.Outcome {
	return unposted(o, "TikTok got "+strconv.FormatInt(got, 10)+" of the video's "+strconv.FormatInt(size, 10)+" bytes")
}

// id returns the public post's id, or nothing.
func (s state) id() string {
	if len(s.IDs) == 0 {
		return ""
	}
	id := strings.Trim(string(s.IDs[0]), `"`)
	if id == "" || len(id) > 64 || strings.Trim(id, "0123456789") != "" {
		return ""
	}
	return id
}

// state asks for a post's state. It fails with *connector.Refusal.
func (c *Connector) state(ctx context.Context, o connector.Opening, id string) (state, error) {
	_, auth, err := c.Account(o)
	if err != nil {
		return state{}, err
	}
	data, err := c.ask(ctx, auth, pathStatus, map[string]string{"publish_id": id})
	if err != nil {
		return state{}, err
	}
	var st state
	if json.Unmarshal(data, &st) != nil || st.Status == "" {
		return state{}, &connector.Refusal{Kind: job.FailTransient, Msg: "TikTok's answer does not say what became of the post"}
	}
	return st, nil
}

// unread is a poll that brought no word.
func unread(why string) job.Outcome {
	return job.Outcome{Result: job.ResultUnknown, Kind: job.FailAmbiguous, Message: transport.Clean(why, transport.MaxMessage)}
}

// unreadable keeps what the engine must know of a failed poll: that the credential was
// refused, or how long to wait. A rate limit of polls is not one of posts, so it holds
// only the polls.
func unreadable(err error) job.Outcome {
	o := unread(err.Error())
	var r *connector.Refusal
	if errors.As(err, &r) {
		o.Message, o.RetryAfter = r.Msg, r.RetryAfter
		if r.Kind == job.FailAuth {
			o.Kind, o.Auth = job.FailAuth, r.Cause()
		}
	}
	return o
}
