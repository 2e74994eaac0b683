package twittertext

import (
	"strings"
	"unicode/utf8"
)

// Rules of this file: the library's patterns read units of UTF-16, so that a half of a pair is a
// character to them. Its texts are translated: each half becomes a rune of its own, of plane 15,
// and a rune of that plane is two halves itself.

// halves is where the halves are in a translated text.
const halves = 0xF0000

// units is a text in units of UTF-16.
type units struct {
	text string // each unit is one rune
	// unit has the number of the unit at each byte of the text, and from the byte of the original at
	// which each unit begins; both have one more, for the end.
	unit, from []int
}

func unitsOf(original string) units {
	var b strings.Builder
	u := units{unit: make([]int, 0, len(original)+1), from: make([]int, 0, len(original)+1)}
	add := func(r rune, from int) {
		size, _ := b.WriteRune(r)
		for range size {
			u.unit = append(u.unit, len(u.from))
		}
		u.from = append(u.from, from)
	}
	for at, r := range original {
		if r < 0x10000 {
			add(r, at)
			continue
		}
		add(halves+(r-0x10000)>>10, at)
		add(halves+0x400+(r-0x10000)&0x3FF, at)
	}
	u.text = b.String()
	u.unit, u.from = append(u.unit, len(u.from)), append(u.from, len(original))
	return u
}

// joined returns a part of a translated text as it was.
func joined(part string) string {
	var b strings.Builder
	for len(part) > 0 {
		r, size := utf8.DecodeRuneInString(part)
		part = part[size:]
		if r < halves {
			b.WriteRune(r)
			continue
		}
		low, more := utf8.DecodeRuneInString(part)
		if r >= halves+0x400 || low < halves+0x400 {
			b.WriteRune(utf8.RuneError) // half a pair
			continue
		}
		part = part[more:]
		b.WriteRune(0x10000 + (r-halves)<<10 + low - halves - 0x400)
	}
	return b.String()
}

// length is how many units a part of a translated text has.
func length(part string) int { return utf8.RuneCountInString(part) }
