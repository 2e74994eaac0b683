package httpapi

import (
	"bytes"
	"encoding/json"
	"errors"
	"strconv"
	"strings"
	"unicode/utf8"
)

// maxID bounds what is taken for an external id, in bytes.
const maxID = 256

// pointer is a JSON Pointer (RFC 6901): its reference tokens, unescaped. Nil
// points nowhere.
type pointer []string

var errPointer = errors.New(`not a JSON Pointer (RFC 6901), such as "/data/id"`)

func parsePointer(text string) (pointer, error) {
	if text == "" {
		return nil, nil
	}
	if text[0] != '/' || len(text) > maxPointer || !utf8.ValidString(text) {
		return nil, errPointer
	}
	var p pointer
	for token := range strings.SplitSeq(text[1:], "/") {
		for i := range len(token) {
			if token[i] == '~' && (i+1 == len(token) || token[i+1] != '0' && token[i+1] != '1') {
				return nil, errPointer
			}
		}
		p = append(p, strings.ReplaceAll(strings.ReplaceAll(token, "~1", "/"), "~0", "~"))
	}
	return p, nil
}

// String returns the pointer as it is written.
func (p pointer) String() string {
	var b strings.Builder
	for _, token := range p {
		b.WriteString("/" + strings.ReplaceAll(strings.ReplaceAll(token, "~", "~0"), "/", "~1"))
	}
	return b.String()
}

// find returns the text or number that the pointer names in a JSON text; any other
// value counts as none. A number is returned as the answer writes it.
func (p pointer) find(body []byte) (string, bool) {
	if p == nil || !json.Valid(body) { // the decoder stops at the end of a value, whatever follows
		return "", false
	}
	d := json.NewDecoder(bytes.NewReader(body))
	d.UseNumber()
	var value any
	if d.Decode(&value) != nil {
		return "", false
	}
	for _, token := range p {
		var ok bool
		switch in := value.(type) {
		case map[string]any:
			value, ok = in[token]
		case []any:
			var i int
			if i, ok = index(token); ok {
				if ok = i < len(in); ok {
					value = in[i]
				}
			}
		}
		if !ok {
			return "", false
		}
	}
	var id string
	switch v := value.(type) {
	case string:
		id = v
	case json.Number:
		id = v.String()
	}
	control := func(r rune) bool { return r < ' ' || r >= 0x7f && r < 0xa0 || r == utf8.RuneError }
	if id == "" || len(id) > maxID || strings.IndexFunc(id, control) >= 0 {
		return "", false
	}
	return id, true
}

// index reads an array's index (RFC 6901, section 4): no sign, no leading zero.
func index(token string) (int, bool) {
	if token == "" || len(token) > 1 && token[0] == '0' || strings.Trim(token, "0123456789") != "" {
		return 0, false
	}
	i, err := strconv.Atoi(token)
	return i, err == nil
}
