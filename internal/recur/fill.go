package recur

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Placeholders are the names that CheckText and Fill know, as {{run}}. {{{{ stands for {{ itself.
var Placeholders = []string{"nominal_time", "nominal_date", "nominal_name", "instant", "zone", "run", "schedule_id"}

// CheckText reports the first placeholder of a text that is unknown or open. The path goes into the error, an *Error.
func CheckText(path, text string) error {
	err := eachPart(text, func(string) bool { return true }, func(string) bool { return true })
	if err != nil {
		return &Error{Path: path, Reason: err.Error()}
	}
	return nil
}

// Fill replaces the placeholders of a text by a beat's values: run is the number of the run, counted by the caller. It fails where the result
// would have more than limit bytes. The caller applies it to strings whose meaning it may change, and never to a key or to a URL's host.
func (s *Schedule) Fill(text string, b Beat, run int64, limit int) (string, error) {
	var out strings.Builder
	put := func(part string) bool {
		if out.Len()+len(part) > limit {
			return false
		}
		out.WriteString(part)
		return true
	}
	value := func(name string) bool {
		switch name {
		case "nominal_time":
			return put(b.Civil.String())
		case "nominal_date":
			return put(b.Civil.Date())
		case "nominal_name":
			return put(b.Name)
		case "instant":
			return put(b.Instant.UTC().Format(time.RFC3339))
		case "zone":
			return put(s.spec.Zone)
		case "run":
			return put(strconv.FormatInt(run, 10))
		default:
			return put(s.spec.ID)
		}
	}
	if err := eachPart(text, put, value); err != nil {
		return "", err
	}
	return out.String(), nil
}

// eachPart calls plain with each part of a text that stands for itself, and value with the name of each placeholder, until
// one returns false because the result is too long.
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
