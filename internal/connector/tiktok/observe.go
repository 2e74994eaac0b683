package tiktok

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"

	"github.com/fireonce/fireonce/internal/connector"
	"github.com/fireonce/fireonce/internal/connector/kit"
	"github.com/fireonce/fireonce/internal/connector/lookup"
	"github.com/fireonce/fireonce/internal/job"
)

const (
	// listSize is how many videos one page has at most (List Videos), maxPages how many
	// pages one look reads.
	listSize = 20
	maxPages = 10
	// clockSlack is how far TikTok's clock may be from the store's.
	clockSlack = time.Minute
)

// Watermark implements connector.Observer. There is none: HANDLE needs no position to
// read back to.
func (*Connector) Watermark(context.Context, connector.Opening) (string, error) { return "", nil }

// Observe implements connector.Observer: it looks for a post whose beginning was not
// answered, or not recorded, so that it has no name here.
//
// An upload without a name had no byte sent: names are durable first. A file that
// TikTok was to fetch may be posted at any time, and its account lists public videos
// only, some time after they were posted. So a listed video that could be it is shown
// to a person, and its absence proves nothing.
func (c *Connector) Observe(ctx context.Context, o connector.Opening, l connector.Look) job.Observation {
	var pulled *content
	for _, a := range l.Attempts {
		if !a.Result.Open() {
			continue
		}
		if a.Handle != "" {
			out := saw(job.SawHandle, "attempt %d has a name to ask about", a.Number)
			out.Handle = a.Handle
			return out
		}
		post, err := thaw(a.Frozen)
		if err != nil {
			return saw(job.SawInconclusive, "the stored post of attempt %d is not readable", a.Number)
		}
		if post.Source == sourcePull {
			pulled = &post
		}
	}
	switch {
	case len(l.Attempts) == 0:
		return saw(job.SawInconclusive, "the attempts are not known")
	case pulled == nil:
		return saw(job.SawAbsent, "the upload never got a name, so no byte of the video was sent and nothing could be posted")
	}
	return c.search(ctx, o, l, *pulled)
}

func saw(v job.Verdict, format string, args ...any) job.Observation {
	return lookup.Saw(v, fmt.Sprintf(format, args...))
}

// search reads the account's public videos back to the send.
func (c *Connector) search(ctx context.Context, o connector.Opening, l connector.Look, post content) job.Observation {
	const nobody = "TikTok did not name the post, and does not tell whether it will fetch the file"
	_, auth, err := c.Account(o)
	if err != nil {
		return saw(job.SawInconclusive, "%s", nobody)
	}
	found, err := c.videos(ctx, auth, l.First.ArmedAt.Add(-clockSlack), post)
	if err == nil && l.Taken != nil && len(found) > 0 {
		var taken map[string]bool
		if taken, err = l.Taken(ctx, found); err == nil {
			var left []string
			for _, id := range found {
				if !taken[id] {
					left = append(left, id)
				}
			}
			found = left
		}
	}
	var r *connector.Refusal
	switch {
	case errors.As(err, &r):
		out := saw(job.SawInconclusive, "%s; %s", nobody, r.Msg)
		out.Kind = lookup.Unseen(r).Kind
		return out
	case err != nil:
		return saw(job.SawInconclusive, "%s; it could not be read which videos are other jobs'", nobody)
	case len(found) == 0:
		return saw(job.SawInconclusive, "%s; none of the account's public videos is it yet", nobody)
	default:
		return saw(job.SawCandidates, "TikTok lists what could be it: %s", strings.Join(found, ", "))
	}
}

type video struct {
	ID          string `json:"id"`
	Created     int64  `json:"create_time"` // Unix seconds
	Title       string `json:"title"`
	Description string `json:"video_description"`
}

// least is the shortest beginning, in characters, that counts as a cut text. TikTok
// cuts texts to 150 (Video Object, "Max length: 150"), which may count bytes, and may
// put dots at the end.
const least = 45

// like reports whether a video may be a post: it has its text, or the beginning of it.
func (v video) like(post content) bool {
	want, title, description := normal(post.Text), normal(v.Title), normal(v.Description)
	if want == "" {
		return title == "" && description == ""
	}
	for _, text := range []string{title, description} {
		begin := strings.TrimRight(text, "…. ")
		if text == want || utf8.RuneCountInString(begin) >= least && strings.HasPrefix(want, begin) {
			return true
		}
	}
	return false
}

// videos lists those with the post's text since a time, newest first.
func (c *Connector) videos(ctx context.Context, auth kit.Auth, since time.Time, post content) ([]string, error) {
	var found []string
	ask := map[string]int64{"max_count": listSize}
	for range maxPages {
		data, err := c.ask(ctx, auth, pathList, ask)
		if err != nil {
			return nil, err
		}
		var page struct {
			Videos []video `json:"videos"`
			Cursor int64   `json:"cursor"`
			More   bool    `json:"has_more"`
		}
		if json.Unmarshal(data, &page) != nil {
			return nil, &connector.Refusal{Kind: job.FailTransient, Msg: "TikTok's answer is no list of videos"}
		}
		for _, v := range page.Videos {
			at := time.Unix(v.Created, 0)
			if at.Before(since) {
				return found, nil
			}
			if validID(v.ID) && v.like(post) {
				found = append(found, v.ID)
			}
		}
		if !page.More || len(page.Videos) == 0 {
			return found, nil
		}
		ask["cursor"] = page.Cursor
	}
	return found, nil
}

// normal is a text in the form in which two are compared: NFC, and each run of white
// space one space.
func normal(text string) string { return strings.Join(strings.Fields(norm.NFC.String(text)), " ") }
