package weburl

import "strings"

// A part is a part of a URL, by the characters that RFC 3986 allows in it besides letters,
// digits and escapes.
type part string

const (
	// inPath has unreserved, sub-delims, ":", "@" (sections 2.2, 2.3 and 3.3) and the slash.
	inPath part = "-._~!$&'()*+,;=:@/"
	// inQuery has these and the question mark (sections 3.4 and 3.5), as a fragment has.
	inQuery = inPath + "?"
)

const hexDigits = "0123456789ABCDEF"

// escape percent-encodes what a part of a URL may not have, and a "%" that begins no escape.
// What is escaped already stays.
func escape(text string, in part) string {
	var out strings.Builder
	done := 0
	for i := 0; i < len(text); i++ {
		c := text[i]
		if letterOrDigit(c) || strings.IndexByte(string(in), c) >= 0 ||
			c == '%' && i+2 < len(text) && hexDigit(text[i+1]) && hexDigit(text[i+2]) {
			continue
		}
		out.WriteString(text[done:i])
		out.WriteByte('%')
		out.WriteByte(hexDigits[c>>4])
		out.WriteByte(hexDigits[c&15])
		done = i + 1
	}
	if done == 0 {
		return text
	}
	out.WriteString(text[done:])
	return out.String()
}

// EscapePath returns a path as Parse returns that of a URL.
func EscapePath(path string) string { return escape(path, inPath) }

// EscapeValue percent-encodes a value so that it is one segment of a path, or one value of a
// form in a query: neither divides what is around it. "+" stands for a blank in forms.
func EscapeValue(value string) string { return escape(strings.ReplaceAll(value, "%", "%25"), inValue) }

const inValue part = "-._~:"

func letterOrDigit(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
}

func hexDigit(c byte) bool {
	return c >= '0' && c <= '9' || c >= 'a' && c <= 'f' || c >= 'A' && c <= 'F'
}
