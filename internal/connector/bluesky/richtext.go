package bluesky

import (
	"regexp"
	"slices"
	"strings"
	"sync"
	"unicode"

	"github.com/clipperhouse/uax29/v2/graphemes"
)

// Rules of this file: Bluesky shows no links of its own accord; facets say where one is, by bytes of
// UTF-8 (app.bsky.richtext.facet). What is one is what the reference client makes one (@atproto/api,
// detectFacets), and internal/proof/oracles compares the two. Its patterns are translated: what
// JavaScript calls white space is space here, because Go's \s knows ASCII alone.
//
// Four kinds differ. A server refuses a record with three: a link that begins with http and has no
// scheme gets one; a link that is no URI by the lexicon, and a tag of more bytes than it allows, stay
// text. Of facets that overlap the first one counts, as it does to readers.

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
	// DID is the account of a mention: its handle, until that is resolved.
	DID string `json:"did,omitempty"`
}

const (
	typeLink    = "app.bsky.richtext.facet#link"
	typeTag     = "app.bsky.richtext.facet#tag"
	typeMention = "app.bsky.richtext.facet#mention"
	// maxTag bounds a hashtag, in graphemes; maxTagBytes in bytes.
	maxTag      = 64
	maxTagBytes = 640
)

// Classes of the client's patterns, without their brackets.
const (
	space = `\t-\r \x{A0}\x{1680}\x{2000}-\x{200A}\x{2028}\x{2029}\x{202F}\x{205F}\x{3000}\x{FEFF}`
	// unseen are characters that show nothing, and end a tag.
	unseen = `\x{AD}\x{2060}\x{200A}-\x{200D}\x{20E2}`
)

var (
	mentions = regexp.MustCompile(`(?:\A|[` + space + `(])@([a-zA-Z0-9.-]+)\b`)
	links    = regexp.MustCompile(`(?:\A|[` + space + `(])([Hh][Tt][Tt][Pp][Ss]?://[^` + space + `]+|([A-Za-z][A-Za-z0-9]*(?:\.[A-Za-z0-9]+)+)[^` + space + `]*)`)
	tags     = regexp.MustCompile(`(?:\A|[` + space + `])([#＃])([^` + space + unseen + `]*[^0-9\pP` + space + unseen + `][^` + space + unseen + `]*)`)
	// cashtags ends with what follows one, which may be the blank before the next.
	cashtags = regexp.MustCompile(`[` + space + `(]\$([A-Za-z][A-Za-z0-9]{0,4})(?:[` + space + `.,;:!?)"'\x{2019}]|\z)`)
	// uriForm is what the lexicon takes for a URI.
	uriForm = regexp.MustCompile(`^[0-9A-Za-z_]+:(?://)?[^` + space + `/][^` + space + `]*$`)
)

// topLevels are the top-level domains.
var topLevels = sync.OnceValue(func() map[string]bool {
	out := make(map[string]bool)
	for top := range strings.SplitSeq(topLevel, " ") {
		out[top] = true
	}
	return out
})

// facetsOf finds mentions, links, hashtags and cashtags, in the order of their places.
func facetsOf(text string) []facet {
	out := slices.Concat(mentionsIn(text), linksIn(text), tagsIn(text), cashtagsIn(text))
	slices.SortStableFunc(out, func(a, b facet) int { return a.Index.Start - b.Index.Start })
	end := 0
	return slices.DeleteFunc(out, func(f facet) bool {
		overlaps := f.Index.Start < end
		if !overlaps {
			end = f.Index.End
		}
		return overlaps
	})
}

func mentionsIn(text string) (out []facet) {
	for _, at := range mentions.FindAllStringSubmatchIndex(text, -1) {
		handle := text[at[2]:at[3]]
		if isDomain(handle) || strings.HasSuffix(handle, ".test") {
			out = append(out, facet{byteSlice{at[2] - 1, at[3]}, []feature{{Type: typeMention, DID: handle}}})
		}
	}
	return out
}

func linksIn(text string) (out []facet) {
	for _, at := range links.FindAllStringSubmatchIndex(text, -1) {
		shown := text[at[2]:at[3]]
		bare := at[4] >= 0
		if bare && !isDomain(text[at[4]:at[5]]) || !bare && !strings.HasPrefix(shown, "http") {
			continue // the scheme's letters are small
		}
		if end := len(shown) - 1; strings.IndexByte(".,;:!?", shown[end]) >= 0 {
			shown = shown[:end]
		}
		if strings.HasSuffix(shown, ")") && !strings.Contains(shown, "(") {
			shown = strings.TrimSuffix(shown, ")")
		}
		uri := shown
		if bare {
			uri = "https://" + shown
		}
		if uriForm.MatchString(uri) {
			out = append(out, facet{byteSlice{at[2], at[2] + len(shown)}, []feature{{Type: typeLink, URI: uri}}})
		}
	}
	return out
}

func tagsIn(text string) (out []facet) {
	for _, at := range tags.FindAllStringSubmatchIndex(text, -1) {
		tag := text[at[4]:at[5]]
		if strings.HasPrefix(tag, "\ufe0f") { // an emoji's keycap
			continue
		}
		tag = strings.TrimRightFunc(tag, unicode.IsPunct)
		if tag == "" || len(tag) > maxTagBytes || len(tag) > maxTag && graphemesIn(tag) > maxTag {
			continue
		}
		out = append(out, facet{byteSlice{at[2], at[4] + len(tag)}, []feature{{Type: typeTag, Tag: tag}}})
	}
	return out
}

func cashtagsIn(text string) (out []facet) {
	text = " " + text // the beginning counts as a blank
	for from := 0; ; {
		at := cashtags.FindStringSubmatchIndex(text[from:])
		if at == nil {
			return out
		}
		begin, end := from+at[2], from+at[3]
		out = append(out, facet{byteSlice{begin - 2, end - 1}, []feature{{Type: typeTag, Tag: "$" + strings.ToUpper(text[begin:end])}}})
		from = end
	}
}

// isDomain reports whether a name ends with a top-level domain in lower case.
func isDomain(name string) bool {
	at := strings.LastIndexByte(name, '.')
	return at >= 0 && topLevels()[name[at+1:]]
}

// graphemesIn counts the characters of a text as its readers see them (UAX #29), as the platform does.
func graphemesIn(text string) int {
	n := 0
	for all := graphemes.FromString(text); all.Next(); {
		n++
	}
	return n
}
