package client

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"buf.build/gen/go/bufbuild/protovalidate/protocolbuffers/go/buf/validate"
	"github.com/urfave/cli/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/fieldmaskpb"

	"github.com/fireonce/fireonce/cmd/fireonce/internal/exit"
	"github.com/fireonce/fireonce/gen/comments"
	"github.com/fireonce/fireonce/internal/connector/platform"
)

// Rules of this file: a flag is made from the field of a request that it sets. The field's type is
// the flag's, its rules (buf.validate) are the bounds, its enum has the words, and the first sentence
// of its comment is the help; "Unset: …" in the comment is the default. Flags are made by hand only
// where a field says too little: times with a zone, files, and what a command does beside its call.

// fields are flags that each set one field of a message.
type fields struct {
	of   protoreflect.MessageDescriptor
	list []platform.Flag
	// whose begins the help: what the flags are for. Empty: for all.
	whose string
}

// fieldsOf returns the flags of a message's fields, which words name by their paths: "labels" is
// --label, "window=start_window" --window, and "to:ADDRESS=to" has that placeholder. A "!" at the
// end makes a flag required.
func fieldsOf(message proto.Message, words ...string) fields {
	out := fields{of: message.ProtoReflect().Descriptor()}
	for _, word := range strings.Fields(strings.Join(words, " ")) {
		word, required := strings.CutSuffix(word, "!")
		name, path, renamed := strings.Cut(word, "=")
		name, placeholder, _ := strings.Cut(name, ":")
		if !renamed {
			path = name
			name = strings.ReplaceAll(name[strings.LastIndexByte(name, '.')+1:], "_", "-")
			if fieldAt(out.of, path).Cardinality() == protoreflect.Repeated {
				name = strings.TrimSuffix(name, "s")
			}
		}
		out.list = append(out.list, platform.Flag{Name: name, Field: path, Required: required, Placeholder: placeholder})
	}
	return out
}

// below returns words whose paths are in a field of a message: "filter" and "from=time" make
// "from=filter.time".
func below(field, words string) string {
	return regexp.MustCompile(`([^\s=]+=)?(\S+)`).ReplaceAllStringFunc(words, func(word string) string {
		name, path, renamed := strings.Cut(word, "=")
		if !renamed {
			return field + "." + word
		}
		return name + "=" + field + "." + path
	})
}

// otherwise replaces what an absent flag means, for commands that change an object.
func (f fields) otherwise(absent string) fields {
	f.list = slices.Clone(f.list)
	for i := range f.list {
		f.list[i].DefaultText = absent
	}
	return f
}

// and adds flags of the same message.
func (f fields) and(more fields) fields {
	f.list = slices.Concat(f.list, more.list)
	return f
}

// only begins the help with what the flags are for.
func (f fields) only(whose string) fields {
	f.whose = whose
	return f
}

// flags makes the flags.
func (f fields) flags() (out []cli.Flag) {
	for _, one := range f.list {
		field := fieldAt(f.of, one.Field)
		usage, absent := helpOf(one, field, f.whose)
		one.DefaultText = cmp.Or(one.DefaultText, absent)
		out = append(out, declaredFlag(one, field, usage))
	}
	return out
}

// set sets the fields whose flags are given, and names them in an update mask. An empty text leaves an
// enum unspecified.
func (f fields) set(cmd *cli.Command, message proto.Message) error {
	for _, one := range f.list {
		if !cmd.IsSet(one.Name) {
			continue
		}
		unset := cmd.Value(one.Name) == "" && fieldAt(f.of, one.Field).Kind() == protoreflect.EnumKind
		if err := setField(cmd, one, message.ProtoReflect(), one.Field); err != nil && !unset {
			return err
		}
		if f.of.Fields().ByName("update_mask") != nil {
			head, _, _ := strings.Cut(one.Field, ".")
			change(message, head)
		}
	}
	return nil
}

// change names a field in the update mask of a request.
func change(req proto.Message, field string) {
	m := req.ProtoReflect()
	mask := m.Mutable(m.Descriptor().Fields().ByName("update_mask")).Message().Interface().(*fieldmaskpb.FieldMask)
	if !slices.Contains(mask.GetPaths(), field) {
		mask.Paths = append(mask.GetPaths(), field)
	}
}

// given reports whether one of the flags is set.
func (f fields) given(cmd *cli.Command) bool {
	return slices.ContainsFunc(f.list, func(one platform.Flag) bool { return cmd.IsSet(one.Name) })
}

var (
	// sentence ends where the next one begins.
	sentence = regexp.MustCompile(`\. [A-Z0-9*]|\.$`)
	// absence is what a comment says of a field that is not set.
	absence = regexp.MustCompile(`(?:^|\. )(?:Unset|Empty|Unspecified|0)(?: or 0)?(?::| means) (?:the default: )?(.*?)(?:\. [A-Z0-9]|\.$)`)
	// spelled are durations as comments spell them.
	spelled = regexp.MustCompile(`\b(\d+) (h|min|s|days?)\b`)
)

// helpOf returns the help of a flag, with its placeholder in front, and what the flag's absence means.
func helpOf(f platform.Flag, field protoreflect.FieldDescriptor, whose string) (usage, absent string) {
	text := comments.Of[string(field.FullName())]
	if oneof := field.ContainingOneof(); oneof != nil && text == "" {
		text = comments.Of[string(oneof.FullName())]
	}
	if found := absence.FindStringSubmatch(text); found != nil {
		absent = spelled.ReplaceAllStringFunc(found[1], func(d string) string {
			n, unit, _ := strings.Cut(d, " ")
			return n + unit[:1]
		})
	}
	if at := sentence.FindStringIndex(text); at != nil {
		text = text[:at[0]]
	}
	if len(text) > 1 && text[1] >= 'a' && text[1] <= 'z' || strings.HasPrefix(text, "A ") {
		text = strings.ToLower(text[:1]) + text[1:]
	}
	text = whose + forFlags(text, field)
	for _, more := range []string{wordsOf(f, field), boundsOf(field)} {
		switch {
		case more == "":
		case strings.Contains(text, ":"):
			text += "; " + more
		default:
			text += ": " + more
		}
	}
	if nameField(field) != nil {
		text += "; by key or id"
	}
	if m := field.Message(); m != nil && m.Name() == "DateRange" {
		text += ": DAY or FIRST..LAST"
	}
	if field.Cardinality() == protoreflect.Repeated {
		text += "; may be repeated"
	}
	if field.Kind() == protoreflect.EnumKind {
		absent = enumWord(absent)
	}
	if field.Kind() == protoreflect.BoolKind && !field.IsList() {
		return text, ""
	}
	return "`" + placeholderOf(f, field) + "` " + text, absent
}

// names are those of fields in comments.
var names = regexp.MustCompile(`\b[a-z]+(_[a-z]+)+\b`)

// forFlags puts the contract's names in a comment into words: those of fields, and those of an enum's values
// as flags take them.
func forFlags(text string, field protoreflect.FieldDescriptor) string {
	text = names.ReplaceAllStringFunc(text, func(name string) string { return strings.ReplaceAll(name, "_", " ") })
	for i := range field.ContainingMessage().Fields().Len() {
		if enum := field.ContainingMessage().Fields().Get(i).Enum(); enum != nil {
			text = regexp.MustCompile(`\b`+enumPrefix(enum)+`[A-Z_]+`).ReplaceAllStringFunc(text, func(value string) string {
				return enumWord(strings.TrimPrefix(value, enumPrefix(enum)))
			})
		}
	}
	return text
}

// placeholderOf returns the word for a flag's value: its type's, or the last word of the flag.
func placeholderOf(f platform.Flag, field protoreflect.FieldDescriptor) string {
	switch {
	case f.Placeholder != "":
		return f.Placeholder
	case field.IsMap(), field.Kind() == protoreflect.MessageKind && field.Message().Name() == "PauseLabel":
		return "NAME=VALUE"
	case field.Kind() == protoreflect.Int32Kind, field.Kind() == protoreflect.Int64Kind:
		return "NUMBER"
	case isDuration(field):
		return "DURATION"
	case field.Kind() == protoreflect.MessageKind && field.Message().Name() == "Timestamp":
		return "TIME"
	default:
		return strings.ToUpper(f.Name[strings.LastIndexByte(f.Name, '-')+1:])
	}
}

func isDuration(field protoreflect.FieldDescriptor) bool {
	return field.Kind() == protoreflect.MessageKind && field.Message().Name() == "Duration"
}

// mostWords bounds the words that a help text lists: completion has the others.
const mostWords = 12

// wordsOf lists the words of an enum.
func wordsOf(f platform.Flag, field protoreflect.FieldDescriptor) string {
	if field.Kind() != protoreflect.EnumKind {
		return ""
	}
	words := wordsFor(f, field.Enum())
	if len(words) > mostWords {
		return strings.Join(words[:3], ", ") + ", …"
	}
	return inWords(words, "or")
}

// rulesOf returns the rules of a field, or of the elements of a list.
func rulesOf(field protoreflect.FieldDescriptor) *validate.FieldRules {
	rules, _ := proto.GetExtension(field.Options(), validate.E_Field).(*validate.FieldRules)
	if field.IsList() {
		return rules.GetRepeated().GetItems()
	}
	return rules
}

// limits returns the bounds of a number or a duration, as text and as numbers; least is 0 if there is
// none, most is 0 if there is none.
func limits(field protoreflect.FieldDescriptor) (least, most int64, shown func(int64) string) {
	rules := rulesOf(field)
	switch {
	case field.IsMap() || rules == nil:
	case field.Kind() == protoreflect.Int32Kind:
		return int64(rules.GetInt32().GetGte()), int64(rules.GetInt32().GetLte()), func(n int64) string { return strconv.FormatInt(n, 10) }
	case isDuration(field):
		d := rules.GetDuration()
		return int64(d.GetGte().AsDuration()), int64(d.GetLte().AsDuration()), func(n int64) string {
			const year = 365 * 24 * time.Hour
			if d := time.Duration(n); d%year == 0 && d > year {
				return fmt.Sprintf("%d years", d/year)
			}
			return span(durationpb.New(time.Duration(n)))
		}
	}
	return 0, 0, nil
}

// boundsOf returns a field's bounds in words; empty: it has none.
func boundsOf(field protoreflect.FieldDescriptor) string {
	switch least, most, shown := limits(field); {
	case shown == nil || most == 0 && least <= 0:
		return ""
	case most == 0:
		return "at least " + shown(least)
	case least <= 0:
		return "at most " + shown(most)
	default:
		return shown(least) + " to " + shown(most)
	}
}

// checkBounds refuses a value outside of its field's bounds. It leaves 0, which may mean absence, to the
// server.
func checkBounds(flag string, field protoreflect.FieldDescriptor, n int64) error {
	least, most, shown := limits(field)
	if shown == nil || n == 0 || n >= least && (most == 0 || n <= most) {
		return nil
	}
	return exit.Usagef("--%s %s: must be %s", flag, cmp.Or(shown(n), strconv.FormatInt(n, 10)), boundsOf(field))
}

// nameField returns the field of a key beside the field of an id, where one flag sets either; nil:
// the field is no such id.
func nameField(field protoreflect.FieldDescriptor) protoreflect.FieldDescriptor {
	if field.Kind() != protoreflect.StringKind {
		return nil
	}
	if oneof := field.ContainingOneof(); oneof != nil && strings.HasSuffix(string(field.Name()), "_id") {
		for i := range oneof.Fields().Len() {
			if other := oneof.Fields().Get(i); strings.HasSuffix(string(other.Name()), "_key") {
				return other
			}
		}
	}
	if name, found := strings.CutSuffix(strings.TrimSuffix(string(field.Name()), "s"), "_id"); found {
		for _, suffix := range []protoreflect.Name{"_key", "_keys"} {
			if other := field.ContainingMessage().Fields().ByName(protoreflect.Name(name) + suffix); other != nil {
				return other
			}
		}
	}
	return nil
}

// wordFlag is a flag of an enum, of which shells complete the words.
type wordFlag struct {
	*cli.StringFlag
	words []string
}

type wordsFlag struct {
	*cli.StringSliceFlag
	words []string
}

// Words returns the words that a flag takes; nil: any text.
func Words(f cli.Flag) []string {
	switch f := f.(type) {
	case *wordFlag:
		return f.words
	case *wordsFlag:
		return f.words
	default:
		return nil
	}
}

// needs is where a command's metadata has what it needs beside its required flags.
const needs = "needs"

// Missing returns what a command needs and the command line lacks, in words.
func Missing(cmd *cli.Command) string {
	var names, all []string
	for _, f := range cmd.Flags {
		if r, ok := f.(cli.RequiredFlag); ok && r.IsRequired() && !cmd.IsSet(f.Names()[0]) {
			names = append(names, "--"+f.Names()[0])
		}
	}
	if len(names) > 0 {
		all = append(all, "missing: "+strings.Join(names, ", "))
	}
	if more, ok := cmd.Metadata[needs].(func(*cli.Command) error); ok {
		if err := more(cmd); err != nil {
			all = append(all, err.Error())
		}
	}
	return strings.Join(all, "; ")
}
