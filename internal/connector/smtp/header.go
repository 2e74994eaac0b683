package smtp

import (
	"bytes"
	"strings"
	"unicode/utf8"

	"github.com/fireonce/fireonce/internal/connector/kit"
)

// Rules of this file: a header is folded between words only, and a text that
// could not be read back as it was is written in encoded words (RFC 2047).

const (
	// foldAt is where a line is folded if it can be (RFC 5322, section 2.1.1).
	foldAt = 76
	// longestWord is the longest word that is written as it is, in bytes.
	longestWord = 900
	// wordBytes is how much text an encoded word holds: 75 characters less its
	// frame, in base64 (RFC 2047, section 2).
	wordBytes = 45
)

// header writes one field, folded between its words. A field without words is
// not written.
func header(b *bytes.Buffer, name string, words []string) {
	if len(words) == 0 {
		return
	}
	line := name + ":"
	for i, word := range words {
		if i > 0 && len(line)+1+len(word) > foldAt {
			b.WriteString(line + "\r\n")
			line = ""
		}
		line += " " + word
	}
	b.WriteString(line + "\r\n")
}

// words returns an unstructured text as words that fold.
func words(text string) []string {
	if text == "" {
		return nil
	}
	list := strings.Split(text, " ")
	for _, word := range list {
		if word == "" || len(word) > longestWord { // spaces that folding could lose
			return encodedWords(text)
		}
	}
	if !printable(text) {
		return encodedWords(text)
	}
	return list
}

// printable reports whether a text is printable ASCII that no reader takes for an
// encoded word.
func printable(text string) bool {
	return strings.IndexFunc(text, func(r rune) bool { return r < ' ' || r >= 0x7f }) < 0 && !strings.Contains(text, "=?")
}

// encodedWords splits a text between characters.
func encodedWords(text string) []string {
	var out []string
	for len(text) > 0 {
		n := min(wordBytes, len(text))
		for n < len(text) && n > 0 && !utf8.RuneStart(text[n]) {
			n--
		}
		out = append(out, "=?utf-8?B?"+encode(text[:n])+"?=")
		text = text[n:]
	}
	return out
}

// addresses writes a field of mailboxes.
func addresses(b *bytes.Buffer, name string, boxes []kit.Mailbox) {
	var list []string
	for i, box := range boxes {
		word := box.Address()
		if box.Name != "" {
			list = append(list, phrase(box.Name)...)
			word = "<" + word + ">"
		}
		if i < len(boxes)-1 {
			word += ","
		}
		list = append(list, word)
	}
	header(b, name, list)
}

// phrase returns a display name as words: a quoted string, or encoded words.
func phrase(name string) []string {
	if !printable(name) {
		return encodedWords(name)
	}
	return []string{`"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(name) + `"`}
}
