package contract

import (
	"errors"
	"regexp"
	"slices"
	"strings"
	"testing"

	"buf.build/gen/go/bufbuild/protovalidate/protocolbuffers/go/buf/validate"
	"buf.build/go/protovalidate"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/dynamicpb"

	_ "github.com/fireonce/fireonce/clients/go/adminv1"
	_ "github.com/fireonce/fireonce/clients/go/connectorv1"
)

// prefixes are those of Objective-C, which has no packages.
var prefixes = map[string]string{
	"fireonce.v1": "FOX", "fireonce.schedules.v1": "FOS", "fireonce.connections.v1": "FON", "fireonce.admin.v1": "FOA",
	"fireonce.connector.v1": "FOC", "fireonce.subscriptions.v1": "FOT",
}

func files(t *testing.T) []protoreflect.FileDescriptor {
	t.Helper()
	var out []protoreflect.FileDescriptor
	protoregistry.GlobalFiles.RangeFiles(func(f protoreflect.FileDescriptor) bool {
		if strings.HasPrefix(f.Path(), "fireonce/") {
			out = append(out, f)
		}
		return true
	})
	if len(out) < 9 {
		t.Fatalf("%d files", len(out))
	}
	return out
}

// messages calls visit for every message of a file, nested ones too.
func messages(in protoreflect.MessageDescriptors, visit func(protoreflect.MessageDescriptor)) {
	for i := range in.Len() {
		visit(in.Get(i))
		messages(in.Get(i).Messages(), visit)
	}
}

// fields calls visit for every field of the contract.
func fields(t *testing.T, visit func(protoreflect.FieldDescriptor)) {
	t.Helper()
	for _, f := range files(t) {
		messages(f.Messages(), func(m protoreflect.MessageDescriptor) {
			for i := range m.Fields().Len() {
				visit(m.Fields().Get(i))
			}
		})
	}
}

// TestRulesCompile: a rule that does not compile would fail every call of its method, because the
// library reports it when a message is checked, and not before.
func TestRulesCompile(t *testing.T) {
	rules, err := Rules()
	if err != nil {
		t.Fatal(err)
	}
	compile := func(m protoreflect.MessageDescriptor) error {
		var broken *protovalidate.CompilationError
		if err := rules.Validate(dynamicpb.NewMessage(m)); errors.As(err, &broken) {
			return broken
		}
		return nil
	}
	for _, f := range files(t) {
		messages(f.Messages(), func(m protoreflect.MessageDescriptor) {
			if err := compile(m); err != nil {
				t.Errorf("%s: %v", m.FullName(), err)
			}
		})
	}
	if err := compile(brokenRule(t)); err == nil {
		t.Error("a broken rule is not noticed")
	}
}

// brokenRule returns a message whose field has a rule that does not compile.
func brokenRule(t *testing.T) protoreflect.MessageDescriptor {
	t.Helper()
	options := &descriptorpb.FieldOptions{}
	proto.SetExtension(options, validate.E_Field, validate.FieldRules_builder{
		Cel: []*validate.Rule{validate.Rule_builder{Id: new("broken"), Expression: new("this.nothing > 1")}.Build()},
	}.Build())
	f, err := protodesc.NewFile(&descriptorpb.FileDescriptorProto{
		Name: new("broken.proto"), Syntax: new("proto3"), Dependency: []string{"buf/validate/validate.proto"},
		MessageType: []*descriptorpb.DescriptorProto{{Name: new("Broken"), Field: []*descriptorpb.FieldDescriptorProto{{
			Name: new("n"), Number: new(int32(1)), Options: options,
			Type:  descriptorpb.FieldDescriptorProto_TYPE_INT32.Enum(),
			Label: descriptorpb.FieldDescriptorProto_LABEL_OPTIONAL.Enum(),
		}}}},
	}, protoregistry.GlobalFiles)
	if err != nil {
		t.Fatal(err)
	}
	return f.Messages().Get(0)
}

// TestFileOptions checks that every language gets a namespace with the version in it. Without
// the options, Java would get a class fireonce.v1.Error that hides java.lang.Error, and protoc
// would have no Go path. The Go path is that of the client's module; TestGoPackages there
// compares the two.
func TestFileOptions(t *testing.T) {
	for _, f := range files(t) {
		o, ok := f.Options().(*descriptorpb.FileOptions)
		if !ok {
			t.Fatalf("%s: no options", f.Path())
		}
		pkg := string(f.Package())
		parts := strings.Split(pkg, ".")
		for i, p := range parts {
			parts[i] = strings.ToUpper(p[:1]) + p[1:]
		}
		short := strings.Join(strings.Split(pkg, ".")[len(parts)-2:], "")
		want := &descriptorpb.FileOptions{
			GoPackage:          proto.String("github.com/fireonce/fireonce/clients/go/" + short),
			JavaPackage:        proto.String("io.github." + pkg),
			JavaMultipleFiles:  proto.Bool(true),
			JavaOuterClassname: proto.String(o.GetJavaOuterClassname()),
			CsharpNamespace:    proto.String(strings.Join(parts, ".")),
			PhpNamespace:       proto.String(strings.Join(parts, `\`)),
			RubyPackage:        proto.String(strings.Join(parts, "::")),
			ObjcClassPrefix:    proto.String(prefixes[pkg]),
		}
		if !proto.Equal(o, want) {
			t.Errorf("%s: options\n%v\nwant\n%v", f.Path(), o, want)
		}
		if !strings.HasSuffix(o.GetJavaOuterClassname(), "Proto") {
			t.Errorf("%s: java_outer_classname %q", f.Path(), o.GetJavaOuterClassname())
		}
	}
}

// TestImports holds the layers of the contract: fireonce.v1 imports none of the other packages, and
// the others of the API none but it, so that a caller generates fireonce.v1 and what else it uses. A
// connector gets the settings and credentials of a connection as they are.
func TestImports(t *testing.T) {
	api := string(Packages()[0])
	layers := map[string][]string{"fireonce.connector.v1": {api, "fireonce.connections.v1"}, api: nil}
	for _, pkg := range Packages()[1:] {
		layers[string(pkg)] = []string{api}
	}
	for _, f := range files(t) {
		pkg := string(f.Package())
		allowed, known := layers[pkg]
		if !known {
			t.Errorf("%s: the package %s has no layer", f.Path(), pkg)
		}
		for i := range f.Imports().Len() {
			to := f.Imports().Get(i)
			if of := string(to.Package()); strings.HasPrefix(of, "fireonce.") && of != pkg && !slices.Contains(allowed, of) {
				t.Errorf("%s imports %s: %s may import of the contract only %v", f.Path(), to.Path(), pkg, allowed)
			}
		}
	}
}

// TestPlainCaller keeps small what every client generates: a message that programs need which do
// more than schedule, read, follow and change jobs belongs into another package.
// `go run ./tools/weigh -contract` prints the sizes.
func TestPlainCaller(t *testing.T) {
	const most = 80
	n := 0
	for _, f := range files(t) {
		if f.Package() == Packages()[0] {
			messages(f.Messages(), func(m protoreflect.MessageDescriptor) {
				if !m.IsMapEntry() {
					n++
				}
			})
		}
	}
	if n < 40 || n > most {
		t.Errorf("%s has %d messages; at most %d", Packages()[0], n, most)
	}
}

// TestNames checks that times are named as AIP-142 demands, and words as AIP-190 does: ApiKey,
// not APIKey.
func TestNames(t *testing.T) {
	timeName := regexp.MustCompile(`^(.*_)?(time|deadline)$`)
	// The bounds of a filter are named by their end; those of a connector by RFC 5280.
	bounds := regexp.MustCompile(`_(from|before)$|^not_(before|after)$`)
	const standardWebhooks = "fireonce.subscriptions.v1.Notice.timestamp" // its name there
	initials := regexp.MustCompile(`[A-Z]{2}`)
	fields(t, func(f protoreflect.FieldDescriptor) {
		switch m := f.Message(); {
		case m == nil:
		case m.FullName() == "google.protobuf.Timestamp":
			if n := string(f.Name()); !timeName.MatchString(n) && !bounds.MatchString(n) && f.FullName() != standardWebhooks {
				t.Errorf("%s: a time without a time's name", f.FullName())
			}
		case initials.MatchString(string(m.Name())) && !strings.HasPrefix(string(m.Name()), "X") && m.Name() != "OAuth2Token":
			t.Errorf("%s: two capital letters in a row", m.FullName())
		}
	})
}

// TestPageSizes checks that too large a page size is reduced, never refused.
func TestPageSizes(t *testing.T) {
	pages := 0
	fields(t, func(f protoreflect.FieldDescriptor) {
		if f.Name() != "page_size" {
			return
		}
		pages++
		rules, _ := proto.GetExtension(f.Options(), validate.E_Field).(*validate.FieldRules)
		want := &validate.FieldRules{Type: &validate.FieldRules_Int32{Int32: &validate.Int32Rules{
			GreaterThan: &validate.Int32Rules_Gte{Gte: 0},
		}}}
		if !proto.Equal(rules, want) {
			t.Errorf("%s: %v", f.FullName(), rules)
		}
		in := f.ContainingMessage().Fields() // the event log is read on by cursors
		if in.ByName("page_token") == nil && in.ByName("after_cursor") == nil {
			t.Errorf("%s: no page_token beside it", f.FullName())
		}
	})
	if pages < 5 {
		t.Errorf("%d requests for pages", pages)
	}
}
