// Package zonename knows the names of time zones: which there are, and which one is probably meant by a text that is not one.
//
// The names are those of the tz database, links such as US/Eastern included. Files in a folder of zone data are no measure: such
// a folder also has localtime, which differs from host to host, and posix/ and right/, which others lack.
package zonename

import (
	_ "embed" // the tables
	"slices"
	"strings"
	"sync"
)

var (
	//go:embed names.txt
	namesText string
	//go:embed countries.txt
	countriesText string
	//go:embed windows.txt
	windowsText string
)

// tables are the names, and the ways to find one by what people write. The keys from spelled on are folded.
type tables struct {
	names     map[string]string // the zone itself, by each of its names
	lower     map[string]string // a name, by its lower case
	spelled   map[string]string // a name, by what is left of it without case and separators
	places    map[string][]string
	countries map[string][]string
	windows   map[string]string
	short     map[string][]string // by abbreviation, or by the long form of one
}

// lines returns the rows of a table.
func lines(text string) []string {
	var out []string
	for line := range strings.Lines(text) {
		if line = strings.TrimSuffix(line, "\n"); !strings.HasPrefix(line, "#") {
			out = append(out, line)
		}
	}
	return out
}

var load = sync.OnceValue(func() *tables {
	t := &tables{
		names: map[string]string{}, lower: map[string]string{}, spelled: map[string]string{}, places: map[string][]string{},
		countries: map[string][]string{}, windows: map[string]string{}, short: map[string][]string{},
	}
	for _, line := range lines(countriesText) {
		row := strings.Split(line, "\t")
		t.countries[fold(row[0])] = row[1:]
		for _, zone := range row[1:] {
			t.names[zone] = zone // Europe/Bratislava is a link to Prague, and the zone of Slovakia
		}
	}
	names := lines(namesText)
	// What US and Canada have in common is found as the first one's first.
	slices.SortStableFunc(names, func(a, b string) int { return -strings.Compare(region(a), region(b)) })
	for _, line := range names {
		name, zone, isLink := strings.Cut(line, " ")
		switch {
		case t.names[name] != "" || !isLink:
			zone = name
		case zone == "Etc/UTC":
			zone = "UTC" // the name that is in use
		}
		t.names[name] = zone
		t.lower[strings.ToLower(name)] = name
		t.spelled[fold(name)] = name
		// America/Argentina/Buenos_Aires is found by each of its ends.
		for end := name; strings.Contains(end, "/"); {
			_, end, _ = strings.Cut(end, "/")
			t.places[fold(end)] = appendNew(t.places[fold(end)], zone)
		}
	}
	for _, line := range lines(windowsText) {
		name, zone, _ := strings.Cut(line, "\t")
		t.windows[fold(name)] = zone
	}
	for _, row := range abbreviations {
		for text := range strings.SplitSeq(row.texts, ",") {
			t.short[fold(text)] = append(t.short[fold(text)], strings.Fields(row.zones)...)
		}
	}
	for zone, texts := range otherPlaces {
		for text := range strings.SplitSeq(texts, ",") {
			t.places[fold(text)] = appendNew(t.places[fold(text)], strings.Fields(zone)...)
		}
	}
	return t
})

// region returns US for its zones, and nothing for others.
func region(name string) string {
	if strings.HasPrefix(name, "US/") {
		return "US"
	}
	return ""
}

func appendNew(list []string, more ...string) []string {
	for _, one := range more {
		if !slices.Contains(list, one) {
			list = append(list, one)
		}
	}
	return list
}

// Known reports whether a text is the name of a time zone, letter by letter.
func Known(name string) bool {
	_, known := load().names[name]
	return known
}

// Listed returns the names in the list tzdata.zi of other zone data.
func Listed(tzdataZi string) map[string]bool {
	out := map[string]bool{}
	for line := range strings.Lines(tzdataZi) {
		switch part := strings.Fields(line); {
		case len(part) > 1 && part[0] == "Z":
			out[part[1]] = true
		case len(part) > 2 && part[0] == "L":
			out[part[2]] = true
		}
	}
	delete(out, "Factory")
	return out
}
