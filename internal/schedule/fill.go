package schedule

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/fireonce/fireonce/clients/go/fireoncev1"
	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/internal/recur"
	"github.com/fireonce/fireonce/internal/weburl"
)

// Rules of this file: placeholders may be in texts that people read, in bodies, in values of
// headers, and in URLs behind the host. Fields that determine the target (addresses, names of
// headers, ids, and a URL's scheme, host and port) may have none, so that no value changes the
// target: who receives the jobs, and who drops duplicates, is known from the template.
//
// Values consist of letters, digits and "_+-:/." only, so they need no quoting in a JSON string,
// in HTML or in a header. The contract keeps all others out of the two values that callers
// choose: a zone's name and a trigger's key. In a URL "+" and "/" are percent-encoded, so that a
// value stays one segment of a path or one value of a query.

// filled is the whole table of the fields that may have placeholders, by their messages.
var filled = map[protoreflect.FullName][]protoreflect.Name{
	"fireonce.v1.SocialPost":          {"text"},
	"fireonce.v1.MastodonOptions":     {"content_warning"},
	"fireonce.v1.DirectMessage":       {"text"},
	"fireonce.v1.BlueskyOptions.Card": {"title", "description", "url"},
	"fireonce.v1.MediaRef":            {"alt_text", "url"},
	"fireonce.v1.Email":               {"subject", "text_body", "html_body"},
	"fireonce.v1.Unsubscribe":         {"url"},
	"fireonce.v1.Webhook":             {"body", "body_text", "url"},
	"fireonce.v1.HttpRequest":         {"body", "body_text", "url"},
	"fireonce.v1.HttpHeader":          {"value"},
	"fireonce.v1.EmailHeader":         {"value"},
	"fireonce.v1.CustomPayload":       {"data"},
}

// isURL reports whether a text of the table is a URL.
func isURL(path string) bool { return path == "url" || strings.HasSuffix(path, ".url") }

// onlyBehindHost is why a URL may have no placeholder.
const onlyBehindHost = "placeholders may be in a URL's path and query, and not before: its host and port are the same for every job. " +
	"Make a schedule for each host"

// notHere is why other fields may have no placeholder: they would be sent as they are written.
const notHere = "has no placeholders: only texts, bodies, values of headers, and the paths and queries of URLs do"

// CheckTexts returns a SpecError if placeholders of a payload are unknown, unclosed, in a field
// that has none, or in a part of a URL that determines the target. Its paths begin in the payload.
func CheckTexts(p *fireoncev1.Payload) error {
	var out SpecError
	eachString(p.ProtoReflect(), "", func(path, text string, filled bool) (string, bool) {
		if !filled {
			if looksFilled(text) {
				out = append(out, Violation{Field: path, Message: notHere})
			}
		} else if isURL(path) && strings.Contains(text[:weburl.AfterAuthority(text)], "{{") {
			out = append(out, Violation{Field: path, Message: onlyBehindHost})
		} else if err := recur.CheckText(path, text); err != nil {
			reason := err.Error()
			if one, ok := errors.AsType[*recur.Error](err); ok {
				reason = one.Reason
			}
			out = append(out, Violation{Field: path, Message: reason})
		}
		return text, true
	})
	if len(out) > 0 {
		// The order in which fields are visited is random.
		slices.SortFunc(out, func(a, b Violation) int { return strings.Compare(a.Field, b.Field) })
		return out
	}
	return nil
}

// CheckLabels returns a SpecError if labels have placeholders, which nothing fills in.
func CheckLabels(labels map[string]string) error {
	for _, name := range slices.Sorted(maps.Keys(labels)) {
		if looksFilled(name) || looksFilled(labels[name]) {
			return SpecError{{Field: "labels", Message: notHere}}
		}
	}
	return nil
}

// looksFilled reports whether a text has what its author takes for a placeholder.
func looksFilled(text string) bool {
	_, after, found := strings.Cut(text, "{{")
	return found && strings.Contains(after, "}}")
}

// fill returns a payload with its placeholders replaced by the values of a firing.
func fill(p *fireoncev1.Payload, times *recur.Schedule, beat recur.Beat, run int64) (*fireoncev1.Payload, error) {
	out := proto.CloneOf(p)
	var failed error
	eachString(out.ProtoReflect(), "", func(path, text string, filled bool) (string, bool) {
		if !filled {
			return text, true
		}
		escape := plain
		if isURL(path) {
			escape = weburl.EscapeValue
		}
		full, err := times.Fill(text, beat, run, job.MaxPayload, escape)
		if err != nil {
			failed = fmt.Errorf("%w: %s: %w", ErrTooLarge, path, err)
		}
		return full, err == nil
	})
	return out, failed
}

// plain is how a text has a value: as it is.
func plain(value string) string { return value }

// eachString calls f with each string of a message, with its path and whether it may have
// placeholders, and replaces the string with f's result, until f returns false. Bytes that are not
// text have no placeholders.
func eachString(m protoreflect.Message, path string, f func(path, text string, filled bool) (string, bool)) bool {
	may := filled[m.Descriptor().FullName()]
	goesOn := true
	m.Range(func(field protoreflect.FieldDescriptor, value protoreflect.Value) bool {
		at := path + string(field.Name())
		switch {
		case field.IsMap():
		case field.IsList():
			for i := range value.List().Len() {
				if field.Message() != nil {
					goesOn = goesOn && eachString(value.List().Get(i).Message(), fmt.Sprintf("%s[%d].", at, i), f)
				} else if field.Kind() == protoreflect.StringKind && goesOn {
					_, goesOn = f(fmt.Sprintf("%s[%d]", at, i), value.List().Get(i).String(), false)
				}
			}
		case field.Message() != nil:
			goesOn = eachString(value.Message(), at+".", f)
		case field.Kind() == protoreflect.BytesKind:
			if !utf8.Valid(value.Bytes()) || !slices.Contains(may, field.Name()) {
				break
			}
			var text string
			if text, goesOn = f(at, string(value.Bytes()), true); goesOn {
				m.Set(field, protoreflect.ValueOfBytes([]byte(text)))
			}
		case field.Kind() == protoreflect.StringKind:
			var text string
			if text, goesOn = f(at, value.String(), slices.Contains(may, field.Name())); goesOn {
				m.Set(field, protoreflect.ValueOfString(text))
			}
		}
		return goesOn
	})
	return goesOn
}
