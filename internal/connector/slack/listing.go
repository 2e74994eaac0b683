package slack

import (
	"encoding/json"
	"errors"
	"time"
)

// errNotListing means that no verdict may rest on an answer.
var errNotListing = errors.New("the answer of Slack is not a list of messages")

// answered is what every answer of Slack's has.
type answered struct {
	OK    *bool  `json:"ok"`
	Error string `json:"error"`
	// Needed are the rights that are missing.
	Needed string `json:"needed"`
}

// message is a message as Slack returns it.
type message struct {
	TS     string  `json:"ts"`
	Thread string  `json:"thread_ts"`
	User   string  `json:"user"`
	Bot    string  `json:"bot_id"`
	Text   string  `json:"text"`
	Mark   *marker `json:"metadata"`

	at time.Time
}

// listing is one page of a conversation, or of a thread.
type listing struct {
	messages []message
	next     string // cursor of the next page; empty: this was the last one
}

// parseListing reads a page. Everything that a verdict rests on must be there.
func parseListing(body []byte) (listing, error) {
	var in struct {
		answered
		Messages *[]message `json:"messages"`
		More     *bool      `json:"has_more"`
		Metadata struct {
			Next string `json:"next_cursor"`
		} `json:"response_metadata"`
	}
	if err := json.Unmarshal(body, &in); err != nil || in.OK == nil || !*in.OK || in.Messages == nil || in.More == nil {
		return listing{}, errNotListing
	}
	if *in.More && in.Metadata.Next == "" {
		return listing{}, errNotListing
	}
	out := listing{messages: *in.Messages}
	if *in.More {
		out.next = in.Metadata.Next
	}
	for i := range out.messages {
		var ok bool
		if out.messages[i].at, ok = timeOf(out.messages[i].TS); !ok {
			return listing{}, errNotListing
		}
	}
	return out, nil
}

// parsePosted reads where a message went.
func parsePosted(body []byte) (r answered, channel, ts string, ok bool) {
	var in struct {
		answered
		Channel string `json:"channel"`
		TS      string `json:"ts"`
	}
	if json.Unmarshal(body, &in) != nil || in.OK == nil {
		return answered{}, "", "", false
	}
	return in.answered, in.Channel, in.TS, *in.OK && isChannel(in.Channel) && stamp.MatchString(in.TS)
}
