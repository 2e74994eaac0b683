package feed

import (
	"encoding/json"
	"errors"
	"time"

	"github.com/fireonce/fireonce/internal/connector/kit"
)

// maxPosts bounds the posts of one page, whatever was asked for.
const maxPosts = 500

// Reasons why no verdict may rest on an answer.
var (
	errNotListing = errors.New("the platform's answer is not a list of posts")
	errNoCursor   = errors.New("the platform lists posts without cursors; a page can shift while it is read")
)

// post is a post as the platform returns it.
type post struct {
	id, url string
	print   [32]byte // of its content
	created time.Time
}

// listing is one page of the account's posts, the newest first.
type listing struct {
	account string
	now     time.Time // by the platform's clock
	posts   []post
	// next is where the next page starts; empty: this was the last one. It means
	// nothing unless cursors is true.
	next    string
	cursors bool
}

// wirePost is a post in JSON. Pointers tell what is missing from what is empty.
type wirePost struct {
	ID      string     `json:"id"`
	URL     string     `json:"url"`
	Text    *string    `json:"text"`
	ReplyTo string     `json:"in_reply_to"`
	Created *time.Time `json:"created_at"`
}

type wireListing struct {
	Account string          `json:"account"`
	Now     *time.Time      `json:"now"`
	Posts   *[]wirePost     `json:"posts"`
	Next    json.RawMessage `json:"next"`
}

// parseListing reads a page. It requires everything that a verdict rests on: a post
// whose text, id or time cannot be read could be the one that the look wants.
func parseListing(body []byte) (listing, error) {
	var in wireListing
	if err := json.Unmarshal(body, &in); err != nil || in.Now == nil || in.Posts == nil || !validID(in.Account) || len(*in.Posts) > maxPosts {
		return listing{}, errNotListing
	}
	out := listing{account: in.Account, now: *in.Now, posts: make([]post, 0, len(*in.Posts))}
	for _, p := range *in.Posts {
		if !validID(p.ID) || p.Text == nil || p.Created == nil {
			return listing{}, errNotListing
		}
		out.posts = append(out.posts, post{
			id: p.ID, url: kit.WebURL(p.URL), print: fingerprint(*p.Text, p.ReplyTo), created: *p.Created,
		})
	}
	if in.Next == nil {
		return out, nil
	}
	if string(in.Next) != "null" {
		if err := json.Unmarshal(in.Next, &out.next); err != nil {
			return out, nil //nolint:nilerr // a number, say: that is no cursor, and cursors reports it to the caller
		}
		if !validID(out.next) {
			return listing{}, errNotListing
		}
	}
	out.cursors = true
	return out, nil
}

// parseCreated reads the answer to a post.
func parseCreated(body []byte) (post, error) {
	var in wirePost
	if err := json.Unmarshal(body, &in); err != nil {
		return post{}, err
	}
	if !validID(in.ID) {
		return post{}, errors.New("no id")
	}
	return post{id: in.ID, url: kit.WebURL(in.URL)}, nil
}
