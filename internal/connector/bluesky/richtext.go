package bluesky

import (
	"regexp"
	"strings"
	"unicode"

	"github.com/rivo/uniseg"

	"github.com/fireonce/fireonce/internal/connector/transport"
)

// Rules of this file: Bluesky shows no links of its own accord; facets say where one
// is, by bytes of UTF-8 (app.bsky.richtext.facet). What is one follows the reference
// client (@atproto/api, detectFacets), with these limits:
//
//   - a link starts with http:// or https://; a bare domain is text;
//   - a mention is text: a facet needs the account's DID, which only the network
//     knows, and the bytes are frozen before anything is asked.

type facet struct {
	Index    byteSlice `json:"index"`
	Features []feature `json:"features"`
}

type byteSlice struct {
	Start int `json:"byteStart"`
	End   int `json:"byteEnd"`
}

type feature struct {
	Type string `json:"$type"`
	URI  string `json:"uri,omitempty"`
	Tag  string `json:"tag,omitempty"`
}

const (
	typeLink = "app.bsky.richtext.facet#link"
	typeTag  = "app.bsky.richtext.facet#tag"
	// maxTag bounds a hashtag, in graphemes; maxTagBytes in bytes.
	maxTag      = 64
	maxTagBytes = 640
)

var (
	links = regexp.MustCompile(`(?i)(?:^|[\s(])(https?://\S+)`)
	tags  = regexp.MustCompile(`(?:^|\s)([#＃]([^\s\x{00AD}\x{2060}\x{200A}\x{200B}\x{200C}\x{200D}\x{20e2}]+))`)
)

// facetsOf finds links and hashtags, in their order.
func facetsOf(text string) []facet {
	var out []facet
	for _, at := range links.FindAllStringSubmatchIndex(text, -1) {
		uri := strings.TrimRight(text[at[2]:at[3]], `.,;:!?'"`)
		if strings.HasSuffix(uri, ")") && !strings.Contains(uri, "(") {
			uri = strings.TrimSuffix(uri, ")")
		}
		if _, err := transport.ParseURL(withoutFragment(uri)); err != nil {
			continue
		}
		out = insert(out, facet{byteSlice{at[2], at[2] + len(uri)}, []feature{{Type: typeLink, URI: uri}}})
	}
	for _, at := range tags.FindAllStringSubmatchIndex(text, -1) {
		tag := strings.TrimRightFunc(text[at[4]:at[5]], unicode.IsPunct)
		if !isTag(tag) {
			continue
		}
		out = insert(out, facet{byteSlice{at[2], at[4] + len(tag)}, []feature{{Type: typeTag, Tag: tag}}})
	}
	return out
}

func withoutFragment(uri string) string {
	before, _, _ := strings.Cut(uri, "#")
	return before
}

// isTag reports whether a text is a tag: a number alone is not, nor is an emoji's
// keycap.
func isTag(tag string) bool {
	return !strings.HasPrefix(tag, "\ufe0f") && len(tag) <= maxTagBytes && uniseg.GraphemeClusterCount(tag) <= maxTag &&
		strings.IndexFunc(tag, func(r rune) bool { return !unicode.IsDigit(r) && !unicode.IsPunct(r) }) >= 0
}

// insert keeps facets in order, and drops one that lies inside another.
func insert(in []facet, f facet) []facet {
	at := len(in)
	for i, g := range in {
		if f.Index.Start < g.Index.End && g.Index.Start < f.Index.End {
			return in
		}
		if f.Index.Start < g.Index.Start {
			at = min(at, i)
		}
	}
	return append(in[:at:at], append([]facet{f}, in[at:]...)...)
}
