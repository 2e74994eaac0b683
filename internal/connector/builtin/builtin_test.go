package builtin_test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/fireonce/fireonce/clients/go/connectionsv1"
	"github.com/fireonce/fireonce/clients/go/fireoncev1"
	"github.com/fireonce/fireonce/internal/connector"
	"github.com/fireonce/fireonce/internal/connector/builtin"
	"github.com/fireonce/fireonce/internal/connector/platform"
	"github.com/fireonce/fireonce/internal/connector/transport"
	"github.com/fireonce/fireonce/internal/job"
)

// connectors makes the connector of each platform.
func connectors(t *testing.T) map[string]connector.Connector {
	t.Helper()
	sender := transport.NewSender(transport.Config{Egress: transport.NewEgress()})
	t.Cleanup(sender.Close)
	same := func(d time.Duration) time.Duration { return d }
	out := make(map[string]connector.Connector)
	for _, p := range builtin.Platforms {
		c, err := p.New(platform.Env{Sender: sender, Wait: same, Life: same})
		if err != nil {
			t.Fatal(err)
		}
		out[p.Name] = c
	}
	return out
}

// TestEntries: an entry and its connector agree, and the connectors make a registry.
func TestEntries(t *testing.T) {
	t.Parallel()
	var all []connector.Connector
	for name, c := range connectors(t) {
		d := c.Describe()
		p, _ := builtin.Find(name)
		kinds := map[platform.Secret]string{platform.Token: "bearer_token", platform.Signing: "webhook_secrets", platform.Login: "basic"}
		switch kind := kinds[p.Secret]; {
		case d.Name != name:
			t.Errorf("the connector of %s is called %s", name, d.Name)
		case p.Title == "":
			t.Errorf("%s has no title", name)
		case kind != "" && !slices.Contains(d.Credentials, kind):
			t.Errorf("%s takes %q, and no %s, which its flags make", name, d.Credentials, kind)
		case p.OAuth != nil && !slices.Contains(d.Credentials, "oauth2"):
			t.Errorf("%s has logins, and takes %q", name, d.Credentials)
		case p.LaterSecret && !d.CredentialRequired:
			t.Errorf("%s waits for a credential that it does not need", name)
		}
		all = append(all, c)
	}
	if _, err := connector.NewRegistry(all...); err != nil {
		t.Error(err)
	}
	if len(all) < 10 || len(all) != len(builtin.Platforms) {
		t.Errorf("%d connectors of %d platforms", len(all), len(builtin.Platforms))
	}
}

// TestSettings: each kind of settings in the contract is a platform's, and each flag sets a field
// that there is.
func TestSettings(t *testing.T) {
	t.Parallel()
	all := connectors(t)
	settings := (*connectionsv1.Connection)(nil).ProtoReflect().Descriptor().Oneofs().ByName("settings")
	options := (*fireoncev1.SocialPost)(nil).ProtoReflect().Descriptor().Oneofs().ByName("platform_options")
	for _, oneof := range []protoreflect.OneofDescriptor{settings, options} {
		for i := range oneof.Fields().Len() {
			name := string(oneof.Fields().Get(i).Name())
			if _, known := builtin.Find(name); !known && name != "custom" {
				t.Errorf("%s.%s is no platform's", oneof.FullName(), name)
			}
		}
	}
	for _, p := range builtin.Platforms {
		own := settings.Fields().ByName(protoreflect.Name(p.Name))
		if (own == nil) != all[p.Name].Describe().NoSettings {
			t.Errorf("%s: its description and the contract differ on whether it has settings", p.Name)
		}
		checkFlags(t, p.Name, own, p.Settings)
		checkFlags(t, p.Name, options.Fields().ByName(protoreflect.Name(p.Name)), p.Post)
	}
}

func checkFlags(t *testing.T, name string, member protoreflect.FieldDescriptor, flags []platform.Flag) {
	t.Helper()
	seen := make(map[string]bool)
	for _, f := range flags {
		if member == nil {
			t.Errorf("%s: --%s has no message to set", name, f.Name)
			continue
		}
		field := fieldAt(member.Message(), f.Field)
		if field == nil {
			t.Errorf("%s: --%s sets %s, which is no field", name, f.Name, f.Field)
			continue
		}
		for _, w := range f.Words {
			if field.Enum() == nil || field.Enum().Values().ByName(protoreflect.Name(w.Value)) == nil {
				t.Errorf("%s: --%s %s is no value", name, f.Name, w.Text)
			}
		}
		if seen[f.Name] || f.With != "" && !seen[f.With] {
			t.Errorf("%s: --%s is there twice, or comes before --%s", name, f.Name, f.With)
		}
		seen[f.Name] = true
	}
}

func fieldAt(m protoreflect.MessageDescriptor, path string) protoreflect.FieldDescriptor {
	head, rest, more := strings.Cut(path, ".")
	field := m.Fields().ByName(protoreflect.Name(head))
	if field != nil && more {
		return fieldAt(field.Message(), rest)
	}
	return field
}

// TestSharedFlags: a flag that platforms share has one type.
func TestSharedFlags(t *testing.T) {
	t.Parallel()
	settings := (*connectionsv1.Connection)(nil).ProtoReflect().Descriptor().Oneofs().ByName("settings")
	first := make(map[string]protoreflect.FieldDescriptor)
	for _, p := range builtin.Platforms {
		for _, f := range p.Settings {
			field := fieldAt(settings.Fields().ByName(protoreflect.Name(p.Name)).Message(), f.Field)
			if other := first[f.Name]; other != nil && (other.Kind() != field.Kind() || other.IsList() != field.IsList()) {
				t.Errorf("--%s is %v of %s, and %v elsewhere", f.Name, field.Kind(), p.Name, other.Kind())
			}
			first[f.Name] = field
		}
	}
}

// TestPages: docs/platforms has a page of each platform, and its table names it.
func TestPages(t *testing.T) {
	t.Parallel()
	dir := filepath.Join("..", "..", "..", "docs", "platforms")
	table, err := os.ReadFile(filepath.Join(dir, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range builtin.Platforms {
		row := regexp.MustCompile("(?m)^\\| \\[`" + p.Name + "`\\]\\((\\w+\\.md)\\) \\|").FindSubmatch(table)
		if row == nil {
			t.Errorf("docs/platforms/README.md has no row for %s", p.Name)
			continue
		}
		if _, err := os.Stat(filepath.Join(dir, string(row[1]))); err != nil {
			t.Error(err)
		}
	}
}

// TestGivingUpPage: docs/giving-up.md states for each connector how long a job is tried, and for
// each of its classes what is done about an unknown outcome.
func TestGivingUpPage(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(root, "docs", "giving-up.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, found := strings.Cut(string(text), "\n## The defaults\n")
	section, _, _ := strings.Cut(rest, "\n## ")
	if !found {
		t.Fatal("the page has no section \"The defaults\"")
	}
	classes := []string{job.Keyed.String(), job.Observable.String(), job.Handle.String(), job.Opaque.String()}
	quoted := regexp.MustCompile("`([a-z]+)`")
	defaults, courses := make(map[string][]string), make(map[string]bool)
	for line := range strings.Lines(section) {
		cells := strings.Split(line, " | ")
		for _, name := range quoted.FindAllStringSubmatch(cells[0], -1) {
			if slices.Contains(classes, cells[1]) {
				courses[name[1]+" "+cells[1]] = true
			} else if len(cells) == 4 { // attempts, waits, time
				defaults[name[1]] = cells[1:]
			}
		}
	}
	for name, c := range connectors(t) {
		d := c.Describe()
		row, force := defaults[name], d.Retry.InForce()
		if len(row) != 3 {
			t.Errorf("the page has no defaults of %s", name)
			continue
		}
		var waits []string
		for n := 1; n < force.MaxAttempts; n++ {
			waits = append(waits, inWords(force.Backoff(n, 0)))
		}
		if row[0] != strconv.Itoa(force.MaxAttempts) || row[1] != strings.Join(waits, ", ") || row[2] != strconv.Itoa(int(force.KeepTrying.Hours()))+" h |\n" {
			t.Errorf("%s is tried %d times for %v, after %v, and the page says %q", name, force.MaxAttempts, force.KeepTrying, waits, row)
		}
		for _, class := range d.Classes {
			if !courses[name+" "+class.String()] {
				t.Errorf("the page does not say what is done about an unknown outcome of %s, class %v", name, class)
			}
			delete(courses, name+" "+class.String())
		}
	}
	if len(courses) > 0 {
		t.Errorf("the page has %v, which no connector is", courses)
	}
}

// inWords writes a wait as the pages do.
func inWords(d time.Duration) string {
	switch {
	case d%time.Hour == 0:
		return strconv.Itoa(int(d.Hours())) + " h"
	case d%time.Minute == 0:
		return strconv.Itoa(int(d.Minutes())) + " min"
	default:
		return strconv.Itoa(int(d.Seconds())) + " s"
	}
}
