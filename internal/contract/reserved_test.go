package contract

import (
	"maps"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"google.golang.org/protobuf/reflect/protoreflect"
)

// TestReserved compares the names and numbers that docs/decisions/reserved.md reserves with those
// of the contract, both ways.
func TestReserved(t *testing.T) {
	page, err := os.ReadFile("../../docs/decisions/reserved.md")
	if err != nil {
		t.Fatal(err)
	}
	// By the message's or enum's name: the names, and the numbers.
	names, numbers := make(map[string][]string), make(map[string][]int)
	for _, m := range regexp.MustCompile("`([A-Z][A-Za-z.]*)\\.([A-Za-z_]+)` (\\d+)").FindAllStringSubmatch(string(page), -1) {
		n, err := strconv.Atoi(m[3])
		if err != nil {
			t.Fatal(err)
		}
		names[m[1]], numbers[m[1]] = append(names[m[1]], m[2]), append(numbers[m[1]], n)
	}
	if len(names) < 15 {
		t.Fatalf("the page reserves something in %d messages and enums", len(names))
	}
	seen := make(map[string]bool)
	compare := func(d protoreflect.Descriptor, prefix string, reserved protoreflect.Names, has func(int) bool, count int) {
		name := strings.TrimPrefix(string(d.FullName()), string(d.ParentFile().Package())+".")
		if reserved.Len()+count == 0 {
			return
		}
		seen[name] = true
		var got []string
		for i := range reserved.Len() {
			got = append(got, strings.TrimPrefix(string(reserved.Get(i)), prefix))
		}
		if want := slices.Sorted(slices.Values(names[name])); !slices.Equal(slices.Sorted(slices.Values(got)), want) {
			t.Errorf("%s reserves the names %q, and the page %q", name, got, want)
		}
		for _, n := range numbers[name] {
			if !has(n) {
				t.Errorf("%s: the number %d is not reserved", name, n)
			}
		}
		if count != len(numbers[name]) {
			t.Errorf("%s reserves %d numbers, and the page %d", name, count, len(numbers[name]))
		}
	}
	enums := func(in protoreflect.EnumDescriptors) {
		for i := range in.Len() {
			e, count := in.Get(i), 0
			for r := range e.ReservedRanges().Len() {
				count += int(e.ReservedRanges().Get(r)[1]-e.ReservedRanges().Get(r)[0]) + 1
			}
			prefix := strings.TrimSuffix(string(e.Values().Get(0).Name()), "UNSPECIFIED")
			compare(e, prefix, e.ReservedNames(), func(n int) bool { return e.ReservedRanges().Has(protoreflect.EnumNumber(n)) }, count)
		}
	}
	for _, f := range files(t) {
		enums(f.Enums())
		messages(f.Messages(), func(m protoreflect.MessageDescriptor) {
			enums(m.Enums())
			count := 0
			for r := range m.ReservedRanges().Len() {
				count += int(m.ReservedRanges().Get(r)[1] - m.ReservedRanges().Get(r)[0])
			}
			compare(m, "", m.ReservedNames(), func(n int) bool { return m.ReservedRanges().Has(protoreflect.FieldNumber(n)) }, count)
		})
	}
	for name := range maps.Keys(names) {
		if !seen[name] {
			t.Errorf("the contract reserves nothing in %s", name)
		}
	}
}
