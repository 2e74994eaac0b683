package recur

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Placeholders are the names that CheckText and Fill accept, written as {{run}}. {{{{ is a literal {{.
var Placeholders = []string{"nominal_time", "nominal_date", "nominal_name", "instant", "zone", "run", "schedule_id"}

// CheckText returns an *Error with the given path for the first placeholder of a text that is unknown or unclosed.
func CheckText(path, text string) error {
	err := eachPart(text, func(string) bool { return true }, func(string) bool { return true })
	if err != nil {
		return &Error{Path: path, Reason: err.Error()}
	}
	return nil
}

// Fill replaces the placeholders of a text with a beat's values, each as escape returns it. run is the number of the run,
// which the caller counts. It fails if the result would have more than limit bytes. The caller must not apply it to a key
// or to a URL's host, or to any other text whose meaning it may not change.
func (s *Schedule) Fill(text string, b Beat, run int64, limit int, escape func(string) string) (string, error) {
	var out strings.Builder
	put := func(part string) bool {
		if out.Len()+len(part) > limit {
			return false
		}
		out.WriteString(part)
		return true
	}
	value := func(name string) bool { return put(escape(s.value(name, b, run))) }
	if err := eachPart(text, put, value); err != nil {
		return "", err
	}
	return out.String(), nil
}

// value returns the value of a known placeholder.
func (s *Schedule) value(name string, b Beat, run int64) string {
	switch name {
	case "nominal_time":
		return b.Civil.String()
	case "nominal_date":
		return b.Civil.Date()
	case "nominal_name":
		return b.Name
	case "instant":
		return b.Instant.UTC().Format(time.RFC3339)
	case "zone":
		return s.spec.Zone
	case "run":
		return strconv.FormatInt(run, 10)
	default:
		return s.spec.ID
	}
}

// eachPart calls plain with each literal part of a text and value with the name of each placeholder, until one of them
// returns false because the result is too long.
func eachPart(text string, plain, value func(string) bool) error {
	for text != "" {
		before, rest, found := strings.Cut(text, "{{")
		ok := plain(before)
		switch {
		case !found:
			rest = ""
		case strings.HasPrefix(rest, "{{"):
			ok = ok && plain("{{")
			rest = rest[2:]
		default:
			name, after, closed := strings.Cut(rest, "}}")
			if !closed {
				return fmt.Errorf("the placeholder that begins with %s has no }}; write {{{{ for {{", quote("{{"+rest))
			}
			if !known(name) {
				return fmt.Errorf("the placeholder %s is not one of {{%s}}; write {{{{ for {{", quote("{{"+name+"}}"), strings.Join(Placeholders, "}}, {{"))
			}
			ok = ok && value(name)
			rest = after
		}
		if !ok {
			return fmt.Errorf("the text is too long with its placeholders filled in")
		}
		text = rest
	}
	return nil
}

func known(name string) bool {
	for _, one := range Placeholders {
		if one == name {
			return true
		}
	}
	return false
}
