package client

import (
	"cmp"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"

	"github.com/urfave/cli/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/fireonce/fireonce/clients/go/adminv1"
	"github.com/fireonce/fireonce/clients/go/connectionsv1"
	"github.com/fireonce/fireonce/clients/go/fireoncev1"
	"github.com/fireonce/fireonce/clients/go/schedulesv1"
	"github.com/fireonce/fireonce/cmd/fireonce/internal/duration"
	"github.com/fireonce/fireonce/cmd/fireonce/internal/exit"
	"github.com/fireonce/fireonce/internal/connector/builtin"
	"github.com/fireonce/fireonce/internal/connector/platform"
)

// Rules of this file: a flag sets one field of a message, whose type decides how the flag is read.
// A flag that a platform declares (platform.Flag) is made from its field; platforms that share a flag
// share its type.

// memberOf returns the message of a oneof's member. It returns nil if there is no such member.
func memberOf(oneof protoreflect.OneofDescriptor, name string) protoreflect.MessageDescriptor {
	if field := oneof.Fields().ByName(protoreflect.Name(name)); field != nil {
		return field.Message()
	}
	return nil
}

// declaredFlags makes one flag of each name that the selected platforms declare. Its usage names
// the platforms.
func declaredFlags(
	selects func(platform.Platform) bool, of func(platform.Platform) ([]platform.Flag, protoreflect.MessageDescriptor),
) []cli.Flag {
	type use struct {
		usage     string
		platforms []string
	}
	type shared struct {
		first platform.Flag
		field protoreflect.FieldDescriptor
		uses  []*use
	}
	var all []*shared
	for _, p := range builtin.Platforms {
		if !selects(p) {
			continue
		}
		flags, message := of(p)
		for _, f := range flags {
			i := slices.IndexFunc(all, func(s *shared) bool { return s.first.Name == f.Name })
			if i < 0 {
				i, all = len(all), append(all, &shared{first: f, field: fieldAt(message, f.Field)})
			}
			j := slices.IndexFunc(all[i].uses, func(u *use) bool { return u.usage == f.Usage })
			if j < 0 {
				j, all[i].uses = len(all[i].uses), append(all[i].uses, &use{usage: f.Usage})
			}
			all[i].uses[j].platforms = append(all[i].uses[j].platforms, p.Name)
		}
	}
	var out []cli.Flag
	for _, s := range all {
		var usages []string
		for _, u := range s.uses {
			usages = append(usages, inWords(u.platforms, "and")+": "+u.usage)
		}
		usage := strings.Join(usages, "; ")
		if s.field.Kind() != protoreflect.BoolKind {
			usage = "`" + placeholderOf(s.first, s.field) + "` " + usage
		}
		s.first.Required = false // by some connectors only: see fits
		out = append(out, declaredFlag(s.first, s.field, usage))
	}
	return out
}

// declaredFlag makes a flag for a field.
func declaredFlag(f platform.Flag, field protoreflect.FieldDescriptor, usage string) cli.Flag {
	absent := cmp.Or(f.DefaultText, f.Default)
	switch enum := field.Kind() == protoreflect.EnumKind; {
	case field.IsList(), field.IsMap():
		flag := &cli.StringSliceFlag{Name: f.Name, Usage: usage, DefaultText: absent, Required: f.Required}
		if enum {
			return &wordsFlag{flag, wordsFor(f, field.Enum())}
		}
		return flag
	case enum:
		return &wordFlag{&cli.StringFlag{Name: f.Name, Usage: usage, DefaultText: absent, Required: f.Required}, wordsFor(f, field.Enum())}
	case field.Kind() == protoreflect.BoolKind:
		return &cli.BoolFlag{Name: f.Name, Usage: usage}
	case field.Kind() == protoreflect.Int32Kind, field.Kind() == protoreflect.Int64Kind:
		return &cli.Int64Flag{Name: f.Name, Usage: usage, DefaultText: absent, HideDefault: absent == "", Required: f.Required}
	case isDuration(field):
		return &duration.Flag{Name: f.Name, Usage: usage, DefaultText: absent, HideDefault: absent == "", Required: f.Required}
	default:
		return &cli.StringFlag{Name: f.Name, Usage: usage, DefaultText: absent, Required: f.Required}
	}
}

// fieldAt finds a field by its path.
func fieldAt(message protoreflect.MessageDescriptor, path string) protoreflect.FieldDescriptor {
	head, rest, more := strings.Cut(path, ".")
	field := message.Fields().ByName(protoreflect.Name(head))
	if more {
		return fieldAt(field.Message(), rest)
	}
	return field
}

// setFields sets the fields of a platform's message from its flags.
func setFields(cmd *cli.Command, p platform.Platform, flags []platform.Flag, to protoreflect.Message) error {
	var missing []string
	for _, f := range flags {
		set := cmd.IsSet(f.Name)
		lacks, err := fits(cmd, p, f, set)
		if err != nil {
			return err
		}
		if lacks != "" {
			missing = append(missing, lacks)
			continue
		}
		if !set && f.Default == "" {
			continue
		}
		if err := setField(cmd, f, to, f.Field); err != nil {
			return err
		}
	}
	if len(missing) > 0 {
		return exit.Usagef("%s", strings.Join(missing, "; "))
	}
	return nil
}

// fits checks whether a flag is there, or is absent, as its declaration asks. It returns what is missing.
func fits(cmd *cli.Command, p platform.Platform, f platform.Flag, set bool) (missing string, err error) {
	with := f.With == "" || strings.HasSuffix("-"+enumWord(cmd.String(f.With)), "-"+f.WithValue) // a value may come with its prefix
	switch {
	case f.Required && !set:
		return fmt.Sprintf("--connector %s needs --%s%s", p.Name, f.Name, f.Hint), nil
	case !with && set && cmd.Value(f.Name) != false: // --flag=false asks for nothing
		return "", exit.Usagef("--%s goes only with --%s %s", f.Name, f.With, f.WithValue)
	case with && !set && f.RequiredWith != "":
		return fmt.Sprintf("--%s %s needs --%s: %s", f.With, f.WithValue, f.Name, f.RequiredWith), nil
	default:
		return "", nil
	}
}

// setField sets the field at a path from its flag.
func setField(cmd *cli.Command, f platform.Flag, to protoreflect.Message, path string) error {
	head, rest, more := strings.Cut(path, ".")
	field := to.Descriptor().Fields().ByName(protoreflect.Name(head))
	switch {
	case more:
		return setField(cmd, f, to.Mutable(field).Message(), rest)
	case field.IsMap(): // it replaces what was there, as a list does
		pairs, err := namedValues(cmd, f.Name)
		to.Clear(field)
		for name, value := range pairs {
			to.Mutable(field).Map().Set(protoreflect.ValueOfString(name).MapKey(), protoreflect.ValueOfString(value))
		}
		return err
	case field.IsList():
		texts := cmd.StringSlice(f.Name)
		if field.Kind() == protoreflect.EnumKind {
			texts = strings.Split(strings.Join(texts, ","), ",")
		}
		to.Clear(field)
		for _, text := range texts {
			v, err := scalar(f, field, text)
			if err != nil {
				return err
			}
			to.Mutable(fieldFor(field, v)).List().Append(v)
		}
		return nil
	}
	v, err := single(cmd, f, field)
	if err == nil {
		to.Set(fieldFor(field, v), v)
	}
	return err
}

// fieldFor returns the field for a value: that of a key, where the flag takes an id or a key and it is
// no id.
func fieldFor(field protoreflect.FieldDescriptor, v protoreflect.Value) protoreflect.FieldDescriptor {
	if other := nameField(field); other != nil {
		if id, _ := idOrKey(v.String()); id == "" {
			return other
		}
	}
	return field
}

// single reads the value of a field that is no list.
func single(cmd *cli.Command, f platform.Flag, field protoreflect.FieldDescriptor) (protoreflect.Value, error) {
	switch field.Kind() {
	case protoreflect.BoolKind:
		return protoreflect.ValueOfBool(cmd.Bool(f.Name)), nil
	case protoreflect.Int32Kind:
		n := cmd.Int64(f.Name)
		if n != int64(int32(n)) {
			return protoreflect.Value{}, exit.Usagef("--%s %d: out of range", f.Name, n)
		}
		return protoreflect.ValueOfInt32(int32(n)), checkBounds(f.Name, field, n)
	case protoreflect.Int64Kind:
		return protoreflect.ValueOfInt64(cmd.Int64(f.Name)), nil
	case protoreflect.MessageKind:
		switch field.Message().Name() {
		case "Timestamp":
			at, err := parseTime(f.Name, cmd.String(f.Name))
			return protoreflect.ValueOfMessage(at.ProtoReflect()), err
		case "PauseLabel":
			name, value, found := strings.Cut(cmd.String(f.Name), "=")
			if !found {
				return protoreflect.Value{}, exit.Usagef("--%s %q: must be NAME=VALUE", f.Name, cmd.String(f.Name))
			}
			return protoreflect.ValueOfMessage((&adminv1.PauseLabel{Name: name, Value: value}).ProtoReflect()), nil
		}
		d := cmd.Duration(f.Name)
		return protoreflect.ValueOfMessage(durationpb.New(d).ProtoReflect()), checkBounds(f.Name, field, int64(d))
	default:
		return scalar(f, field, cmp.Or(cmd.String(f.Name), f.Default))
	}
}

// scalar reads a text, an enum, or one element of a list.
func scalar(f platform.Flag, field protoreflect.FieldDescriptor, text string) (protoreflect.Value, error) {
	switch field.Kind() {
	case protoreflect.MessageKind: // in a list
		m, err := element(f.Name, text, field)
		if err != nil {
			return protoreflect.Value{}, err
		}
		return protoreflect.ValueOfMessage(m.ProtoReflect()), nil
	default:
	}
	if field.Kind() != protoreflect.EnumKind {
		return protoreflect.ValueOfString(text), nil
	}
	values, prefix := field.Enum().Values(), enumPrefix(field.Enum())
	name := prefix + strings.TrimPrefix(strings.ToUpper(strings.ReplaceAll(text, "-", "_")), prefix)
	for _, w := range f.Words {
		if enumWord(w.Text) == enumWord(text) {
			name = w.Value
		}
	}
	if v := values.ByName(protoreflect.Name(name)); v != nil && v.Number() != 0 {
		return protoreflect.ValueOfEnum(v.Number()), nil
	}
	return protoreflect.Value{}, exit.Usagef("--%s %q: must be one of %s%s", f.Name, text, strings.Join(wordsFor(f, field.Enum()), ", "), f.Hint)
}

// element reads an element of a list of messages.
func element(flag, text string, field protoreflect.FieldDescriptor) (message, error) {
	switch field.Message().Name() {
	case "RefusalRule":
		return refusalRule(flag, text)
	case "UnactedAnswer":
		return unactedAnswer(flag, text)
	case "HttpHeader":
		name, value, err := headerOf(flag, text)
		return &fireoncev1.HttpHeader{Name: name, Value: value}, err
	case "EmailHeader":
		name, value, err := headerOf(flag, text)
		return &fireoncev1.EmailHeader{Name: name, Value: value}, err
	case "MediaRef":
		return mediaAt(flag, text)
	case "DateRange":
		first, last, _ := strings.Cut(text, "..")
		return &schedulesv1.DateRange{First: first, Last: last}, nil
	default:
		d, err := duration.Parse(text)
		if err != nil {
			return nil, exit.Usagef("--%s %q is not a duration such as 90s, 1h30m or 2d", flag, text)
		}
		return durationpb.New(d), checkBounds(flag, field, int64(d))
	}
}

// wordsFor lists the words for an enum's values, in their order.
func wordsFor(f platform.Flag, enum protoreflect.EnumDescriptor) (out []string) {
	for _, w := range f.Words {
		out = append(out, w.Text)
	}
	for i := 1; len(f.Words) == 0 && i < enum.Values().Len(); i++ { // 0 is UNSPECIFIED
		out = append(out, enumWord(strings.TrimPrefix(string(enum.Values().Get(i).Name()), enumPrefix(enum))))
	}
	return out
}

// enumPrefix is what the names of an enum's values have in common.
func enumPrefix(enum protoreflect.EnumDescriptor) string {
	return strings.TrimSuffix(string(enum.Values().Get(0).Name()), "UNSPECIFIED")
}

// enumWord is a value's name as flags take it.
func enumWord(name string) string { return strings.ToLower(strings.ReplaceAll(name, "_", "-")) }

// shownFields returns labels and values, in turn, of the fields that a platform shows.
func shownFields(flags []platform.Flag, of protoreflect.Message) (out []string) {
	for _, f := range flags {
		text := shownField(f, of, f.Field)
		i := slices.Index(out, f.Label)
		switch {
		case f.Label == "" || text == "":
		case i < 0:
			out = append(out, f.Label, text)
		case f.Shown == platform.ShownPort:
			out[i+1] = net.JoinHostPort(out[i+1], text)
		default:
			out[i+1] += ", " + text
		}
	}
	return out
}

// shownField returns how a field is shown; empty: it is not set.
func shownField(f platform.Flag, of protoreflect.Message, path string) string {
	head, rest, more := strings.Cut(path, ".")
	field := of.Descriptor().Fields().ByName(protoreflect.Name(head))
	if !of.Has(field) {
		return ""
	}
	if more {
		return shownField(f, of.Get(field).Message(), rest)
	}
	shown := f.Shown
	var text string
	switch v := of.Get(field); {
	case field.IsList():
		var all []string
		for i := range v.List().Len() {
			if unacted, is := v.List().Get(i).Interface().(protoreflect.Message); is {
				all = append(all, unactedText(unacted.Interface()))
				continue
			}
			all = append(all, v.List().Get(i).String())
		}
		text = strings.Join(all, ", ")
	case field.Kind() == protoreflect.MessageKind:
		d, _ := v.Message().Interface().(*durationpb.Duration)
		text = duration.Format(d.AsDuration())
	case field.Kind() == protoreflect.EnumKind:
		name := string(field.Enum().Values().ByNumber(v.Enum()).Name())
		text = words(name, field.Enum())
		for _, w := range f.Words {
			if w.Value == name {
				text = w.Text
				if w.Shown != "" {
					shown = w.Shown
				}
			}
		}
	case field.Kind() == protoreflect.Int32Kind:
		text = strconv.FormatInt(v.Int(), 10)
	default:
		text = v.String()
	}
	switch shown {
	case platform.ShownNot:
		return ""
	case "", platform.ShownPort:
		return text
	default:
		return strings.ReplaceAll(shown, "%s", text)
	}
}

// inWords joins names for people: "a, b and c".
func inWords(names []string, and string) string {
	if len(names) < 2 {
		return strings.Join(names, "")
	}
	return strings.Join(names[:len(names)-1], ", ") + " " + and + " " + names[len(names)-1]
}

// refusalRule reads "404=15m", "410=final" or "400=retry".
func refusalRule(flag, text string) (*connectionsv1.RefusalRule, error) {
	status, then, found := strings.Cut(text, "=")
	code, err := strconv.ParseInt(status, 10, 32)
	if err != nil || !found {
		return nil, exit.Usagef("--%s %q is no rule such as 404=15m, 410=final or 400=retry", flag, text)
	}
	out := &connectionsv1.RefusalRule{Status: int32(code)}
	switch then {
	case "retry":
	case "final":
		out.RetryFor = durationpb.New(0)
	default:
		d, err := duration.Parse(then)
		if err != nil {
			return nil, exit.Usagef("--%s %q: %q is neither final nor retry, and no duration such as 90s, 15m or 2d", flag, text, then)
		}
		out.RetryFor = durationpb.New(d)
	}
	return out, nil
}

// unactedAnswer reads "502 X-Refused-By: edge", or "503 body: no healthy upstream".
func unactedAnswer(flag, text string) (*connectionsv1.UnactedAnswer, error) {
	status, mark, _ := strings.Cut(text, " ")
	code, err := strconv.ParseInt(status, 10, 32)
	name, value, found := strings.Cut(mark, ": ")
	if err != nil || !found {
		return nil, exit.Usagef(`--%s %q is no answer such as "502 X-Refused-By: edge" or "503 body: no healthy upstream"`, flag, text)
	}
	out := &connectionsv1.UnactedAnswer{Status: int32(code)}
	if name == "body" {
		out.Mark = &connectionsv1.UnactedAnswer_BodyContains{BodyContains: value}
	} else {
		out.Mark = &connectionsv1.UnactedAnswer_Header{Header: &connectionsv1.AnswerMark{Name: name, Value: value}}
	}
	return out, nil
}

// unactedText returns such an answer as the flag takes it.
func unactedText(m proto.Message) string {
	answer, _ := m.(*connectionsv1.UnactedAnswer) // no other list of messages is shown
	mark := "body: " + answer.GetBodyContains()
	if h := answer.GetHeader(); h != nil {
		mark = h.GetName() + ": " + h.GetValue()
	}
	return fmt.Sprintf("%d %s", answer.GetStatus(), mark)
}
