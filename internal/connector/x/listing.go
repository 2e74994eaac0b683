package x

import (
	"encoding/json"
	"errors"
	"time"
)

// pageSize is the most objects of a page (max_results).
const pageSize = 100

// errNotListing means that an answer is none that a verdict may rest on.
var errNotListing = errors.New("the answer of X is not a list of posts")

// object is a post or a direct message as X returns it.
type object struct {
	id     string
	number uint64
	at     time.Time
	text   told
	// replyTo and quote are posts; empty: none.
	replyTo, quote string
	// pictures is how many pictures, or videos, a post has.
	pictures int
	// repost is another account's post, shown again.
	repost bool
	// origin is the first id of a post that was edited; empty: it was not.
	origin string
	// sender is a direct message's; empty for posts.
	sender string
}

// listing is one page, the newest first.
type listing struct {
	objects []object
	next    string // token of the next page; empty: this was the last one
}

type wireEntities struct {
	URLs []struct {
		URL      string `json:"url"`
		Expanded string `json:"expanded_url"`
	} `json:"urls"`
}

// wireNote is the whole of a long text. It is named in two ways.
type wireNote struct {
	Text     *string      `json:"text"`
	Entities wireEntities `json:"entities"`
}

type wireObject struct {
	ID         string       `json:"id"`
	Text       *string      `json:"text"`
	Entities   wireEntities `json:"entities"`
	NoteTweet  *wireNote    `json:"note_tweet"`
	NotePost   *wireNote    `json:"note_post"`
	Referenced []struct {
		Type string `json:"type"`
		ID   string `json:"id"`
	} `json:"referenced_tweets"`
	Attachments struct {
		Keys []string `json:"media_keys"`
	} `json:"attachments"`
	History []string `json:"edit_history_tweet_ids"`
	Event   string   `json:"event_type"`
	Sender  string   `json:"sender_id"`
}

type wireListing struct {
	Data *[]wireObject `json:"data"`
	Meta *struct {
		Count *int   `json:"result_count"`
		Next  string `json:"next_token"`
	} `json:"meta"`
	Errors []json.RawMessage `json:"errors"`
}

// parseListing reads a page of posts, or of events of a conversation. Everything
// that a verdict rests on must be there. Errors beside data say that something was
// left out.
func parseListing(body []byte, messages bool) (listing, error) {
	var in wireListing
	if err := json.Unmarshal(body, &in); err != nil || in.Meta == nil || in.Meta.Count == nil || len(in.Errors) > 0 {
		return listing{}, errNotListing
	}
	var data []wireObject
	if in.Data != nil { // an empty page has none
		data = *in.Data
	}
	if *in.Meta.Count != len(data) {
		return listing{}, errNotListing
	}
	out := listing{next: in.Meta.Next}
	for _, w := range data {
		o, ok := w.object()
		if !ok || messages && o.sender == "" {
			return listing{}, errNotListing
		}
		out.objects = append(out.objects, o)
	}
	return out, nil
}

func (w wireObject) object() (o object, ok bool) {
	if o.at, o.number, ok = timeOf(w.ID); !ok || w.Text == nil {
		return object{}, false
	}
	o.id, o.sender, o.pictures = w.ID, w.Sender, len(w.Attachments.Keys)
	o.text = toldOf(*w.Text, w.Entities)
	for _, note := range []*wireNote{w.NoteTweet, w.NotePost} {
		if note != nil && note.Text != nil {
			o.text = toldOf(*note.Text, note.Entities, w.Entities)
		}
	}
	for _, r := range w.Referenced {
		switch r.Type {
		case "replied_to":
			o.replyTo = r.ID
		case "quoted":
			o.quote = r.ID
		case "retweeted", "reposted":
			o.repost = true
		default: // what a later X refers to
		}
	}
	if len(w.History) > 1 {
		o.origin = w.History[0]
	}
	return o, true
}

func toldOf(text string, entities ...wireEntities) told {
	t := told{text: text, links: make(map[string]string)}
	for _, e := range entities {
		for _, u := range e.URLs {
			if u.URL != "" && u.Expanded != "" {
				t.links[u.URL] = u.Expanded
			}
		}
	}
	return t
}

// me is the account of a credential.
type me struct{ id, name string }

func parseMe(body []byte) (me, error) {
	var in struct {
		Data struct {
			ID       string `json:"id"`
			Username string `json:"username"`
		} `json:"data"`
	}
	if err := json.Unmarshal(body, &in); err != nil || !snowflake.MatchString(in.Data.ID) {
		return me{}, errors.New("the answer of X does not say whose account this is")
	}
	return me{id: in.Data.ID, name: in.Data.Username}, nil
}

// parseCreated reads the id out of the answer to a post or a direct message.
func parseCreated(body []byte, message bool) (string, bool) {
	var in struct {
		Data struct {
			ID    string `json:"id"`
			Event string `json:"dm_event_id"`
		} `json:"data"`
	}
	if json.Unmarshal(body, &in) != nil {
		return "", false
	}
	id := in.Data.ID
	if message {
		id = in.Data.Event
	}
	return id, snowflake.MatchString(id)
}

// messagePrefix begins the external id of a direct message, which is no post's.
const messagePrefix = "dm:"

// externalID names an object among all of an account's.
func externalID(id string, message bool) string {
	if message {
		return messagePrefix + id
	}
	return id
}

// webURL is where a person sees a post; empty for a direct message.
func webURL(id string, message bool) string {
	if message {
		return ""
	}
	return "https://x.com/i/web/status/" + id
}
