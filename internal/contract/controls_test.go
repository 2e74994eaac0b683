package contract

import (
	"errors"
	"fmt"
	"maps"
	"regexp/syntax"
	"slices"
	"strings"
	"testing"

	"buf.build/gen/go/bufbuild/protovalidate/protocolbuffers/go/buf/validate"
	"buf.build/go/protovalidate"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/fireonce/fireonce/clients/go/fireoncev1"
)

// Tabs and line breaks, and any control character.
const (
	tab   = "\t"
	lines = "\t\n\r"
	every = "every control character"
)

// content lists the texts of requests that may have control characters, with those that each may
// have. A text that may have every one is stored inside a payload, never as a text of its own:
// PostgreSQL's texts have no NUL. All other strings of requests may have none: they are names,
// keys and filters.
var content = map[protoreflect.FullName]string{
	"SocialPost.text":             lines,
	"MediaRef.alt_text":           lines,
	"DirectMessage.text":          lines,
	"Email.text_body":             every,
	"Email.html_body":             every,
	"Webhook.body_text":           every,
	"HttpRequest.body_text":       every,
	"HttpHeader.value":            tab,
	"ApiKeyHeader.value":          tab,
	"SecretHeader.value":          tab,
	"ResolveJobRequest.note":      lines,
	"ResolveIncidentRequest.note": lines,

	"ScheduleSpec.cron_expressions":       lines,
	"ScheduleExclusions.cron_expressions": lines,
	"RecurrenceRule.rule":                 lines,
	"BulkResolveJobsRequest.note":         lines,
}

// ignored lists the strings of requests that the server sets in its answers, and ignores in
// requests.
var ignored = []protoreflect.FullName{
	"Connection.connection_id", "Connection.project_id", "Connection.state_reason", "Connection.pause_id", "Connection.pause_reason", "Connection.account_identity",
	"Connection.credential_fingerprint", "Connection.etag", "Connection.created_by", "Connection.updated_by", "Connection.idempotency_key",
}

// elsewhere are the strings of messages of other packages, with the reason why they need no pattern.
var elsewhere = map[protoreflect.FullName]string{
	"google.protobuf.FieldMask.paths":    "field_mask.in names the allowed paths",
	"google.protobuf.Value.string_value": "the canonical form of a body_json has escapes for them, and is stored as body_text",
	"google.protobuf.Struct.fields.keys": "as Value.string_value",
}

// requestStrings calls visit for every string that a request can have, with the rules of the
// string: a field's, those of a list's items, or those of a map's keys or values. Messages of
// other packages have no strings that are stored.
func requestStrings(visit func(name protoreflect.FullName, rules *validate.FieldRules)) {
	seen := make(map[protoreflect.FullName]bool)
	var walk func(protoreflect.MessageDescriptor)
	walk = func(m protoreflect.MessageDescriptor) {
		if seen[m.FullName()] {
			return
		}
		seen[m.FullName()] = true
		for i := range m.Fields().Len() {
			f := m.Fields().Get(i)
			rules, _ := proto.GetExtension(f.Options(), validate.E_Field).(*validate.FieldRules)
			each := func(part string, kind protoreflect.FieldDescriptor, of *validate.FieldRules) {
				switch kind.Kind() {
				case protoreflect.StringKind:
					visit(f.FullName()+protoreflect.FullName(part), of)
				case protoreflect.MessageKind, protoreflect.GroupKind:
					walk(kind.Message())
				default:
				}
			}
			switch {
			case f.IsMap():
				each(".keys", f.MapKey(), rules.GetMap().GetKeys())
				each(".values", f.MapValue(), rules.GetMap().GetValues())
			case f.IsList():
				each("", f, rules.GetRepeated().GetItems())
			default:
				each("", f, rules)
			}
		}
	}
	for m := range Methods() {
		walk(m.Input())
	}
}

// controls returns the control characters that a text with these rules can have.
func controls(rules *validate.FieldRules) (string, error) {
	s := rules.GetString()
	switch {
	case s.GetUuid(): // TestFormats
		return "", nil
	case len(s.GetIn()) > 0:
		return "", nil
	case !s.HasPattern():
		return every, nil
	}
	re, err := syntax.Parse(s.GetPattern(), syntax.Perl)
	if err != nil {
		return "", err
	}
	if !anchored(re) {
		return "", fmt.Errorf("pattern %q is not anchored at both ends", s.GetPattern())
	}
	var out []rune
	for r := range rune(0x80) {
		if isControl(r) && consumes(re, r) {
			out = append(out, r)
		}
	}
	return string(out), nil
}

// isControl reports whether a character is what the contract calls a control character.
func isControl(r rune) bool { return r < ' ' || r == 0x7f }

// anchored reports whether an expression matches whole texts only.
func anchored(re *syntax.Regexp) bool {
	switch re.Op {
	case syntax.OpConcat:
		return re.Sub[0].Op == syntax.OpBeginText && re.Sub[len(re.Sub)-1].Op == syntax.OpEndText
	case syntax.OpAlternate, syntax.OpCapture:
		return !slices.ContainsFunc(re.Sub, func(s *syntax.Regexp) bool { return !anchored(s) })
	default:
		return false
	}
}

// consumes reports whether a part of an expression can match a character.
func consumes(re *syntax.Regexp, r rune) bool {
	switch re.Op {
	case syntax.OpAnyChar:
		return true
	case syntax.OpAnyCharNotNL:
		return r != '\n'
	case syntax.OpLiteral:
		return slices.Contains(re.Rune, r)
	case syntax.OpCharClass:
		for i := 0; i < len(re.Rune); i += 2 {
			if re.Rune[i] <= r && r <= re.Rune[i+1] {
				return true
			}
		}
		return false
	default:
		return slices.ContainsFunc(re.Sub, func(s *syntax.Regexp) bool { return consumes(s, r) })
	}
}

// inPackage returns a name without the package before it.
func inPackage(name protoreflect.FullName) protoreflect.FullName {
	for _, p := range Packages() {
		if rest, ok := strings.CutPrefix(string(name), string(p)+"."); ok {
			return protoreflect.FullName(rest)
		}
	}
	return name
}

// TestControlCharacters checks that the rules of every string of a request exclude control
// characters, except those that the lists above name.
func TestControlCharacters(t *testing.T) {
	seen := make(map[protoreflect.FullName]bool)
	requestStrings(func(name protoreflect.FullName, rules *validate.FieldRules) {
		name = inPackage(name)
		seen[name] = true
		got, err := controls(rules)
		switch want := content[name]; {
		case slices.Contains(ignored, name), elsewhere[name] != "":
		case err != nil:
			t.Errorf("%s: %v", name, err)
		case got != want:
			t.Errorf("%s: the rules allow the control characters %q; want %q", name, got, want)
		}
	})
	for _, name := range slices.Concat(slices.Collect(maps.Keys(content)), slices.Collect(maps.Keys(elsewhere)), ignored) {
		if !seen[name] {
			t.Errorf("%s is listed, and no request has it", name)
		}
	}
	if len(seen) < 150 {
		t.Errorf("%d strings were seen", len(seen))
	}
}

// TestFormats checks that the formats that stand in for a pattern exclude control characters.
func TestFormats(t *testing.T) {
	rules, err := Rules()
	if err != nil {
		t.Fatal(err)
	}
	refused := func(m proto.Message, field string) bool {
		broken, ok := errors.AsType[*protovalidate.ValidationError](rules.Validate(m))
		return ok && slices.ContainsFunc(broken.Violations, func(v *protovalidate.Violation) bool {
			return protovalidate.FieldPathString(v.Proto.GetField()) == field
		})
	}
	const id, url = "0199c0de-0000-7000-8000-000000000001", "https://example.org/a/b?c=d"
	ofJob := func(id string) proto.Message {
		return &fireoncev1.GetJobRequest{Job: &fireoncev1.GetJobRequest_JobId{JobId: id}}
	}
	ofURL := func(url string) proto.Message { return &fireoncev1.Webhook{Url: url} }
	if refused(ofJob(id), "job_id") || refused(ofURL(url), "url") {
		t.Fatal("a good text is refused")
	}
	for r := range rune(0x80) {
		if !isControl(r) {
			continue
		}
		for i := range len(id) + 1 {
			if bad := id[:i] + string(r) + id[i:]; !refused(ofJob(bad), "job_id") {
				t.Errorf("uuid allows %q", bad)
			}
		}
		for i := range len(url) + 1 {
			if bad := url[:i] + string(r) + url[i:]; !refused(ofURL(bad), "url") {
				t.Errorf("a URL allows %q", bad)
			}
		}
	}
}
