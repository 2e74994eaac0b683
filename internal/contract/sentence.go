package contract

import (
	"fmt"
	"net/url"
	"regexp"
	"strings"
	"sync"
	"unicode"

	"buf.build/gen/go/bufbuild/protovalidate/protocolbuffers/go/buf/validate"
	"buf.build/go/protovalidate"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/fireonce/fireonce/internal/weburl"
)

// Rules of this file: a message states what a rule of the contract demands as a sentence. It
// never shows a regular expression: each pattern of the contract has its sentence here, and a
// test finds a pattern without one.

// shownValues bounds how many values of an enum a sentence lists.
const shownValues = 20

// patternSentences maps each pattern of the contract to a sentence that states its demand.
var patternSentences = map[string]string{
	`^[!-~]+$`:            "must be printable ASCII characters without spaces, at least one",
	`^[!-~]*$`:            "must be printable ASCII characters without spaces",
	`^[ -~]*$`:            "must be printable ASCII characters",
	`^[!-~]+( +[!-~]+)*$`: "must be printable ASCII characters, without spaces at the ends",
	`^[0-9A-Za-z.-]*$`:    "must be letters, digits, points and hyphens",
	`^[A-Z-]*$`:           "must be capital letters and hyphens",
	`^[0-9-]*$`:           "must be digits and hyphens, such as 2026-12-24",
	`^[A-Z0-9]+$`:         "must be capital letters and digits, at least one",
	`^[A-Z0-9]*$`:         "must be capital letters and digits",
	`^[A-Za-z0-9-]*$`:     "must be letters, digits and hyphens",
	`^[A-Za-z0-9_-]+$`:    "must be letters, digits, underscores and hyphens, at least one",
	`^[a-z!-]{1,64}$`:     "must be 1 to 64 small letters, hyphens and exclamation marks",

	`^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$`: "must be 1 to 63 letters, digits, points, underscores and hyphens, and begin with a letter or a digit",
	`^[A-Za-z0-9_.:/+-]+$`:              "must be letters, digits, underscores, points, colons, slashes, plus signs and hyphens, at least one",
	`^[a-z0-9][a-z0-9_-]{0,62}$`:        "must be 1 to 63 small letters, digits, underscores and hyphens, and begin with a letter or a digit",
	`^[a-z][a-z0-9_-]{0,62}$`:           "must be 1 to 63 small letters, digits, underscores and hyphens, and begin with a letter",
	`^[0-9a-f]{16}$`:                    "must be 16 hexadecimal digits in small letters",
	`^[0-9]{0,19}$`:                     "must be at most 19 digits",
	`^[a-z0-9]{0,128}$`:                 "must be at most 128 small letters and digits",
	`^[a-z][a-z0-9_.-]{0,62}$`:          "must be 1 to 63 small letters, digits, underscores, points and hyphens, and begin with a letter",

	`^[!#$%&'*+.^_` + "`" + `|~0-9A-Za-z-]+$`:                        "must be the name of a header, without its colon: letters, digits and hyphens",
	`^[!#$%&'*+.^_` + "`" + `|~0-9A-Za-z-]*$`:                        "must be the name of a header, without its colon: letters, digits and hyphens",
	`^[^\x00-\x1f\x7f]*$`:                                            "must be one line without control characters",
	`^[^/\x00-\x1f\x7f]*$`:                                           "must be one line without slashes and control characters",
	`^[^:\x00-\x1f\x7f]*$`:                                           "must be one line without colons and control characters",
	`^[^\x00-\x08\x0a-\x1f\x7f]*$`:                                   "must be one line without control characters other than tabs",
	`^[^\x00-\x08\x0b\x0c\x0e-\x1f\x7f]*$`:                           "must have no control characters other than tabs and line breaks",
	`^[^\x00-\x1f\x7f]+@[^\x00-\x1f\x7f]+$`:                          "must be an e-mail address, such as ada@example.org",
	`^(<[!-;=?-~]+@[!-;=?-~]+>)?$`:                                   "must be a Message-ID with its angle brackets, such as <1234@example.org>",
	`^<[!-;=?-~]+@[!-;=?-~]+>$`:                                      "must be a Message-ID with its angle brackets, such as <1234@example.org>",
	patternOrigin:                                                    "must be a scheme, a host and an optional port, such as https://api.example.org",
	patternURL:                                                       "must be an http or https URL, without user info, fragment, white space, backslashes or control characters",
	patternPage:                                                      "must be an http or https URL, without user info, white space, backslashes or control characters",
	`^/[^?#\x00-\x20\x7f]*$`:                                         "must be a path that begins with a slash, without spaces, a query or a fragment",
	"^[^!-,/;-@[-^`{-\\x7f\\x00-\\x20]+$":                            "must be the name of a host, such as smtp.example.org, or an address",
	`^(/([^~/\x00-\x1f\x7f]|~[01])*)*$`:                              "must be a JSON Pointer (RFC 6901), such as /data/id",
	`^(at://[!-~]+)?$`:                                               "must be an AT URI, such as at://ACCOUNT/app.bsky.feed.post/KEY",
	`^[a-z][a-z0-9._-]{0,62}/v[0-9]{1,4}$`:                           "must be a name in small letters and a version, such as order.paid/v1",
	`^whsec_[A-Za-z0-9+/=]{32,88}$`:                                  `must be "whsec_" and 24 to 64 bytes in base64`,
	`^(/([^~/\x00-\x1f\x7f]|~[01])*)+$`:                              "must be a JSON Pointer (RFC 6901) that is not empty, such as /data/id",
	`^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$`: "must be a UUID in small letters",
}

// unknownPattern is the sentence for a pattern that has none yet.
const unknownPattern = "has characters that are not allowed here, or not in this order"

// PatternSentence returns the sentence of a pattern of the contract; empty: it has none yet.
func PatternSentence(pattern string) string { return patternSentences[pattern] }

// Sentence returns a sentence that states the demand of the rule that a message of a type breaks.
func Sentence(v *protovalidate.Violation, of protoreflect.MessageDescriptor) string {
	rule, value := v.Proto.GetRuleId(), v.RuleValue
	switch {
	case strings.HasSuffix(rule, "string.pattern") && value.IsValid():
		if why := urlSentence(value.String(), v.FieldValue); why != "" {
			return why
		}
		text, known := patternSentences[value.String()]
		if !known {
			text = unknownPattern
		}
		if wrong := wrongCharacter(value.String(), v.FieldValue, isSecret(v.FieldDescriptor)); wrong != "" {
			return text + " (" + wrong + ")"
		}
		return text
	case strings.HasSuffix(rule, ".pattern"):
		return unknownPattern
	case rule == "required":
		return requiredSentence(v.Proto.GetField(), of)
	case value.IsValid() && boundSentence(rule, value) != "":
		return boundSentence(rule, value)
	case strings.HasPrefix(rule, "enum.") && v.FieldDescriptor != nil && v.FieldDescriptor.Enum() != nil:
		return OneOfValues(v.FieldDescriptor.Enum())
	case rule == "repeated.unique":
		return "must not have an element twice"
	case strings.HasPrefix(rule, "field_mask."):
		return "must name only " + listed(value)
	case strings.Contains(v.Proto.GetMessage(), "^"): // never a regular expression
		return unknownPattern
	default:
		return strings.TrimPrefix(v.Proto.GetMessage(), "value ")
	}
}

// requiredSentence states that a field must be set. A oneof has a name that no request has, so
// the sentence lists its fields.
func requiredSentence(at *validate.FieldPath, root protoreflect.MessageDescriptor) string {
	elements := at.GetElements()
	for i, element := range elements {
		name := protoreflect.Name(element.GetFieldName())
		if group := root.Oneofs().ByName(name); group != nil && i == len(elements)-1 {
			names := make([]string, group.Fields().Len())
			for k := range names {
				names[k] = string(group.Fields().Get(k).Name())
			}
			return "set one of " + strings.Join(names, ", ")
		}
		field := root.Fields().ByName(name)
		if field == nil || field.IsMap() || field.Message() == nil {
			break
		}
		root = field.Message()
	}
	return "is required"
}

// oneClass is a pattern that demands one class of characters.
var oneClass = regexp.MustCompile(`^\^(\[[^\]]+\])(?:[*+]|\{\d+,\d*\})\$$`)

// classes has the patterns of one character that were compiled.
var classes sync.Map

// wrongCharacter names the first character of a text that its pattern has no place for; empty: none
// alone is the fault. Of a secret it shows only where that is, unless it is one that cannot be seen: these
// come with what was copied, and are no part of the secret.
func wrongCharacter(pattern string, value protoreflect.Value, secret bool) string {
	text, ok := value.Interface().(string)
	if !ok {
		return ""
	}
	fits := func(one string) bool { return !strings.ContainsFunc(one, unicode.IsControl) && one != "\uff20" }
	if part := oneClass.FindStringSubmatch(pattern); part != nil {
		class, known := classes.Load(pattern)
		if !known {
			class, _ = classes.LoadOrStore(pattern, regexp.MustCompile("^"+part[1]+"$"))
		}
		fits = class.(*regexp.Regexp).MatchString
	}
	at := 0
	for _, r := range text {
		at++
		if fits(string(r)) {
			continue
		}
		if r == ' ' || r > '~' && !unicode.IsLetter(r) || !unicode.IsPrint(r) {
			return fmt.Sprintf("character %d is U+%04X%s", at, r, named[r])
		}
		if secret {
			return fmt.Sprintf("character %d is not one of them", at)
		}
		return fmt.Sprintf("character %d is %q", at, r)
	}
	return ""
}

// isSecret reports whether a field belongs to a credential.
func isSecret(field protoreflect.FieldDescriptor) bool {
	return field != nil && strings.HasSuffix(field.ParentFile().Path(), "/credential.proto")
}

// named are the names of characters that cannot be seen, or are taken for others.
var named = map[rune]string{
	'\t': ", a tab", '\n': ", a line break", '\r': ", the carriage return of a line break", ' ': ", a space", '\u00a0': ", a no-break space", '\u3000': ", an ideographic space",
	'\ufeff': ", a byte order mark", '\u200b': ", a zero width space", '\u2013': ", a dash", '\u2014': ", a dash", '\uff20': "; write @", '\u001a': ", the end mark of a DOS file",
}

// The patterns of every URL that is requested, of the origins of URLs, and of a page that is only shown. They are as exact as
// an expression can be; what they refuse, weburl refuses too, and its words name the character or
// part.
const (
	patternURL    = `^[Hh][Tt][Tt][Pp][Ss]?://[^@/?#\\\x00-\x20\x7f]+([/?][^#\\\x00-\x20\x7f]*)?$`
	patternOrigin = `^[Hh][Tt][Tt][Pp][Ss]?://[^@/?#\x00-\x20\x7f]+/?$`
	patternPage   = `^[Hh][Tt][Tt][Pp][Ss]?://[^@/?#\\\x00-\x20\x7f]+([/?#][^\\\x00-\x20\x7f]*)?$`
)

// urlSentence states why a text is not a URL that can be sent; empty: the pattern is not one of
// URLs, or another rule has the reason.
func urlSentence(pattern string, value protoreflect.Value) string {
	parse := map[string]func(string) (*url.URL, error){patternURL: weburl.Parse, patternOrigin: weburl.Parse, patternPage: weburl.ParsePage}[pattern]
	if parse == nil || !value.IsValid() {
		return ""
	}
	text := value.String()
	_, err := parse(text)
	switch {
	case err == nil:
		return ""
	case strings.Contains(text, "{{ ") || strings.Contains(text, " }}"):
		return err.Error() + "; a placeholder has no blanks, such as {{run}}"
	default:
		return err.Error()
	}
}

// boundSentence returns a sentence that states how long a value may be; empty: the rule is not
// a bound.
func boundSentence(rule string, value protoreflect.Value) string {
	switch rule {
	case "string.min_len":
		if value.Uint() == 1 {
			return "must not be empty"
		}
		return fmt.Sprintf("must have at least %d characters", value.Uint())
	case "string.max_len":
		return fmt.Sprintf("must have at most %d characters", value.Uint())
	case "bytes.max_len":
		return fmt.Sprintf("must have at most %d bytes", value.Uint())
	case "repeated.max_items", "map.max_pairs":
		return fmt.Sprintf("must have at most %d elements", value.Uint())
	case "repeated.min_items", "map.min_pairs":
		return fmt.Sprintf("must have at least %d elements", value.Uint())
	default:
		return ""
	}
}

// OneOfValues lists the values of an enum that a request may have.
func OneOfValues(e protoreflect.EnumDescriptor) string {
	names := valueNames(e)
	more := ""
	if len(names) > shownValues {
		names, more = names[:shownValues], ", …"
	}
	return "must be one of " + strings.Join(names, ", ") + more
}

// valueNames returns the names of an enum's values that a request may have.
func valueNames(e protoreflect.EnumDescriptor) (names []string) {
	for i := range e.Values().Len() {
		if v := e.Values().Get(i); v.Number() != 0 {
			names = append(names, string(v.Name()))
		}
	}
	return names
}

// listed joins the values of a rule's list.
func listed(v protoreflect.Value) string {
	if !v.IsValid() {
		return "the fields of this contract"
	}
	list, ok := v.Interface().(protoreflect.List)
	if !ok {
		return v.String()
	}
	words := make([]string, list.Len())
	for i := range words {
		words[i] = list.Get(i).String()
	}
	return strings.Join(words, ", ")
}
