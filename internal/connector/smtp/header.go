package smtp

import (
	"bytes"
	"strings"
	"unicode/utf8"

	"github.com/fireonce/fireonce/internal/connector/kit"
	"github.com/fireonce/fireonce/internal/mailbox"
)

// Rules of this file: a header is folded between words only, and a text that
// could not be read back as it was is written in encoded words (RFC 2047).

const (
	// foldAt is where a line is folded if it can be (RFC 5322, section 2.1.1).
	foldAt = 76
	// longestWord is the longest word that is written as it is, in bytes.
	longestWord = 900
	// wordBytes is how much text an encoded word holds in base64: it has at most 75 characters
	// (RFC 2047, section 2).
	wordBytes = 45
	// wordFrame is what an encoded word has around its text, in bytes.
	wordFrame = len("=?utf-8?B?" + "?=")
)

// header writes one field, folded between its words. A field without words is
// not written.
func header(b *bytes.Buffer, name string, words []string) {
	if len(words) == 0 {
		return
	}
	line := name + ":"
	for i, word := range words {
		// Some readers do not look below a line that ends with the colon, so there only an encoded
		// word is folded, which must not stand on a longer line.
		if (i > 0 || strings.HasPrefix(word, "=?")) && len(line)+1+len(word) > foldAt {
			b.WriteString(line + "\r\n")
			line = ""
		}
		line += " " + word
	}
	b.WriteString(line + "\r\n")
}

// words returns the text of a subject as words that fold.
func words(text string) []string {
	if text == "" {
		return nil
	}
	const used = len("Subject: ")
	list := strings.Split(text, " ")
	for _, word := range list {
		if word == "" || len(word) > longestWord { // spaces that folding could lose
			return encodedWords(text, used)
		}
	}
	if !printable(text) {
		return encodedWords(text, used)
	}
	return list
}

// printable reports whether a text is printable ASCII that no reader takes for an
// encoded word.
func printable(text string) bool {
	return strings.IndexFunc(text, func(r rune) bool { return r < ' ' || r >= 0x7f }) < 0 && !strings.Contains(text, "=?")
}

// valueWords returns the value of a header that a user adds. Relays read some of these, and some
// callers encode them, so ASCII is written as it is: it is folded before blanks, none of which is lost.
func valueWords(h kit.MailHeader) []string {
	if !ascii(h.Value) {
		return encodedWords(h.Value, len(h.Name+": "))
	}
	var out []string
	blanks := ""
	for word := range strings.SplitSeq(h.Value, " ") {
		if word == "" {
			blanks += " "
			continue
		}
		out = append(out, blanks+word)
		blanks = ""
	}
	return out
}

// encodedWords splits a text between characters. The first word comes after so many bytes of its
// line: a line with an encoded word has at most 76 characters (RFC 2047, section 2). Words are as long
// as can be, because some readers show a blank between two of them.
func encodedWords(text string, used int) []string {
	var out []string
	room := min((foldAt-used-wordFrame)/4*3, wordBytes)
	if room < utf8.UTFMax {
		room = wordBytes // header begins a line with it
	}
	for len(text) > 0 {
		n := min(room, len(text))
		for n < len(text) && n > 0 && !utf8.RuneStart(text[n]) {
			n--
		}
		out = append(out, "=?utf-8?B?"+encode(text[:n])+"?=")
		text, room = text[n:], wordBytes
	}
	return out
}

// listed returns elements with a comma after each but the last.
func listed(elements []string) []string {
	var out []string
	for i, e := range elements {
		if i < len(elements)-1 {
			e += ","
		}
		out = append(out, e)
	}
	return out
}

// addresses writes a field of mailboxes.
func addresses(b *bytes.Buffer, name string, boxes []kit.Mailbox) {
	var list []string
	for i, box := range boxes {
		word := box.Address()
		if box.Name != "" {
			used := len(" ") // each mailbox after the first may have a line of its own
			if i == 0 {
				used = len(name + ": ")
			}
			list = append(list, phrase(box.Name, used)...)
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
func phrase(name string, used int) []string {
	if !printable(name) {
		return encodedWords(name, used)
	}
	return []string{mailbox.Quote(name)}
}
