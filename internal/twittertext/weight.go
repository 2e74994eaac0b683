// Package twittertext finds the links of a text and its weighted length, as X's published library of
// this name does. Other platforms use its patterns, too.
package twittertext

import (
	"regexp"
	"strings"
	"sync"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// Rules of this file: a post's length as X counts it, by the library's configuration
// (version 3; tables.go): over the text in NFC, by ranges of characters; a
// link counts 23, and an emoji of several characters as one character.

const linkWeight = 23

// Weigh returns a text's weighted length.
func Weigh(text string) int {
	u := unitsOf(norm.NFC.String(text))
	at := make(map[int]found)
	for _, f := range linksOf(u) {
		at[f.from] = f
	}
	emoji := emojiOf(u)
	n, unit := 0, 0
	skip := 0 // units that were counted already
	for _, r := range u.text {
		switch f, isLink := at[unit]; {
		case skip > 0:
			skip--
		case isLink:
			n, skip = n+linkWeight, f.counts-1
		case emoji[unit] > 0:
			n, skip = n+2, emoji[unit]-1
		case r >= halves && r < halves+0x400: // with the half that follows
			n, skip = n+2, 1
		default:
			n += weightOf(r)
		}
		unit++
	}
	return n
}

func weightOf(r rune) int {
	for _, in := range light {
		if r >= in[0] && r <= in[1] {
			return 1
		}
	}
	return 2
}

// emojiPattern finds emoji. A group is where one ends that is not before a text selector.
var emojiPattern = sync.OnceValue(func() *regexp.Regexp {
	const (
		selected = `\x{FE0F}`
		open     = `()(?:[^\x{FE0E}]|\z)`
	)
	return regexp.MustCompile(partEmojiFirst +
		`|` + partEmojiOpen + selected + `|` + partEmojiOpen + open +
		`|(?:` + partEmojiOpenToned + selected + `|` + partEmojiToned + `)` + partEmojiTone + `?` +
		`|` + partEmojiOpenToned + partEmojiTone + `|` + partEmojiOpenToned + open +
		`|` + partEmojiRest)
})

// emojiOf returns how many units the emoji has that begins at a unit.
func emojiOf(u units) map[int]int {
	if strings.IndexFunc(u.text, func(r rune) bool { return r >= 0xA9 }) < 0 && !strings.ContainsRune(u.text, '\u20e3') {
		return nil
	}
	out := make(map[int]int)
	for from := 0; from < len(u.text); {
		m := emojiPattern().FindStringSubmatchIndex(u.text[from:])
		if m == nil {
			break
		}
		end := m[1]
		for i := 2; i < len(m); i += 2 {
			if m[i] >= 0 {
				end = m[i]
			}
		}
		begins := u.unit[from+m[0]]
		out[begins] = u.unit[from+end] - begins
		from += end
	}
	return out
}

// FirstBarred returns the first character that X takes in no text, and its place in characters, from 1; 0: it has none.
func FirstBarred(text string) (r rune, place int) {
	at := strings.IndexAny(text, barred)
	if at < 0 {
		return 0, 0
	}
	r, _ = utf8.DecodeRuneInString(text[at:])
	return r, 1 + utf8.RuneCountInString(text[:at])
}
