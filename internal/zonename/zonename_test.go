package zonename

import (
	"archive/zip"
	"io"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"
)

// goZones reads the zone data of the Go distribution, which programs embed.
func goZones(t *testing.T) map[string]*time.Location {
	t.Helper()
	root, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		t.Fatal(err)
	}
	archive, err := zip.OpenReader(filepath.Join(strings.TrimSpace(string(root)), "lib", "time", "zoneinfo.zip"))
	if err != nil {
		t.Fatal(err)
	}
	defer archive.Close()
	out := map[string]*time.Location{}
	for _, file := range archive.File {
		if strings.HasSuffix(file.Name, "/") {
			continue
		}
		in, err := file.Open()
		if err != nil {
			t.Fatal(err)
		}
		data, err := io.ReadAll(in)
		if err != nil {
			t.Fatal(err)
		}
		if out[file.Name], err = time.LoadLocationFromTZData(file.Name, data); err != nil {
			t.Fatal(err)
		}
	}
	return out
}

// TestNamesAreThoseThatGoEmbeds: after an update of Go's zone data, testdata/tables.py writes the tables again.
func TestNamesAreThoseThatGoEmbeds(t *testing.T) {
	t.Parallel()
	zones := goZones(t)
	for name := range zones {
		if !Known(name) && name != "Factory" {
			t.Errorf("%s is missing", name)
		}
	}
	for name, zone := range load().names {
		if zones[name] == nil || zones[zone] == nil {
			t.Fatalf("%s, of the zone %s, is not in Go's data", name, zone)
		}
		for month := range 12 * 30 {
			at := time.Date(2000, time.Month(1+month), 1, 0, 0, 0, 0, time.UTC)
			_, want := at.In(zones[zone]).Zone()
			if _, got := at.In(zones[name]).Zone(); got != want {
				t.Errorf("%s has another offset than %s on %s", name, zone, at)
				break
			}
		}
	}
	if len(load().names) < 590 {
		t.Errorf("%d names only", len(load().names))
	}
}

// TestTablesAgainstZoneData: what the tables say of a zone is what its data say.
func TestTablesAgainstZoneData(t *testing.T) {
	t.Parallel()
	zones := goZones(t)
	shows := func(zone string) (abbreviations []string, standard string) {
		for month := range 12 * 10 {
			at := time.Date(2017, time.Month(1+month), 1, 0, 0, 0, 0, time.UTC).In(zones[zone])
			name, _ := at.Zone()
			abbreviations = append(abbreviations, name)
			if !at.IsDST() {
				standard = at.Format("-07:00")
			}
		}
		return abbreviations, standard
	}
	for _, row := range abbreviations[:len(abbreviations)-len(inUse)] {
		for text := range strings.SplitSeq(row.texts, ",") {
			if text[len(text)-1] >= 'a' {
				continue // a long form
			}
			for _, zone := range strings.Fields(row.zones) {
				if seen, _ := shows(zone); !slices.Contains(seen, text) {
					t.Errorf("%s shows %q, not %s", zone, slices.Compact(seen), text)
				}
			}
		}
	}
	for offset, zone := range fixedOffsets {
		if _, standard := shows(zone); standard != offset {
			t.Errorf("the standard time of %s is %s, not %s", zone, standard, offset)
		}
	}
	tables := load()
	for text, names := range tables.places {
		for _, name := range names {
			if !Known(name) {
				t.Errorf("%s: no zone %s", text, name)
			}
		}
	}
	for text, names := range tables.countries {
		for _, name := range names {
			if tables.names[name] != name {
				t.Errorf("%s: %s is not a zone's own name", text, name)
			}
		}
	}
	for text, zone := range tables.windows {
		if !Known(zone) {
			t.Errorf("%s: no zone %s", text, zone)
		}
	}
	if len(tables.windows) < 135 || len(tables.countries) < 240 {
		t.Errorf("%d names of Windows and %d countries only", len(tables.windows), len(tables.countries))
	}
}

// TestEachNameIsFound: a name in another case, with other separators, or in what other programs write around it.
func TestEachNameIsFound(t *testing.T) {
	t.Parallel()
	for name := range load().names {
		for _, text := range []string{
			strings.ToLower(name), strings.ToUpper(name), " " + name, name + " ", "TZ=" + name, ":" + name, "posix/" + name, "right/" + name,
			strings.ReplaceAll(name, "_", " "), strings.ReplaceAll(strings.ToLower(name), "_", "-"), strings.ReplaceAll(name, "/", "\\"),
			"/usr/share/zoneinfo/" + name,
		} {
			if Known(text) {
				continue
			}
			said := Explain(text)
			if !strings.HasSuffix(said, "write "+name) {
				t.Errorf("%q: %s", text, said)
			}
		}
	}
}

func TestExplain(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"localtime":      `"localtime" is the zone of whichever server reads it: write its IANA name, such as Europe/Vienna`,
		"Local":          `"Local" is the zone of whichever server reads it: write its IANA name, such as Europe/Vienna`,
		"posixrules":     `"posixrules" is the zone of whichever server reads it: write its IANA name, such as Europe/Vienna`,
		"Factory":        `"Factory" is not the name of a time zone, which is a region and a city, such as Europe/Vienna`,
		"/etc/localtime": `"/etc/localtime" is the zone of whichever server reads it: write its IANA name, such as Europe/Vienna`,

		"W. Europe Standard Time":                                      `"W. Europe Standard Time" is Windows' name of a time zone: write Europe/Berlin`,
		"w. europe standard time":                                      `"w. europe standard time" is Windows' name of a time zone: write Europe/Berlin`,
		"India Standard Time":                                          `"India Standard Time" is Windows' name of a time zone: write Asia/Kolkata`,
		"Pacific Standard Time":                                        `"Pacific Standard Time" is Windows' name of a time zone: write America/Los_Angeles`,
		"Pacific Daylight Time":                                        `"Pacific Daylight Time" is not the name of a time zone: write America/Los_Angeles`,
		"Eastern Time (US & Canada)":                                   `"Eastern Time (US & Canada)" is not the name of a time zone: write America/New_York`,
		"Central European Summer Time":                                 `"Central European Summer Time" is not the name of a time zone: write Europe/Berlin, Europe/Paris or Europe/Vienna`,
		"(UTC+01:00) Amsterdam, Berlin, Bern, Rome, Stockholm, Vienna": `"(UTC+01:00) Amsterdam, Berlin, Bern, Rome, Stockholm, Vienna" is not the name of a time zone: write one like Europe/Amsterdam, Europe/Berlin, Europe/Zurich`,
		"(GMT+01:00) Vienna":                                           `"(GMT+01:00) Vienna" is not the name of a time zone: write Europe/Vienna`,

		"+02:00":     `"+02:00" is an offset and not a time zone: write the name of a place, such as Europe/Vienna, whose offset follows its summer time, or Etc/GMT-2, which is +02:00 all year (its sign is inverted)`,
		"UTC+2":      `"UTC+2" is an offset and not a time zone: write the name of a place, such as Europe/Vienna, whose offset follows its summer time, or Etc/GMT-2, which is +02:00 all year (its sign is inverted)`,
		"GMT+2":      `"GMT+2" is an offset and not a time zone: write the name of a place, such as Europe/Vienna, whose offset follows its summer time, or Etc/GMT-2, which is +02:00 all year (its sign is inverted)`,
		"utc-0800":   `"utc-0800" is an offset and not a time zone: write the name of a place, such as Europe/Vienna, whose offset follows its summer time, or Etc/GMT+8, which is -08:00 all year (its sign is inverted)`,
		"UTC\u22125": `"UTC−5" is an offset and not a time zone: write the name of a place, such as Europe/Vienna, whose offset follows its summer time, or Etc/GMT+5, which is -05:00 all year (its sign is inverted)`,
		"+05:30":     `"+05:30" is an offset and not a time zone: write the name of a place; +05:30 is that of Asia/Kolkata`,
		"-13":        `"-13" is an offset and not a time zone: write the name of a place, such as Europe/Vienna`,
		"+00:00":     `"+00:00" is an offset and not a time zone: write UTC`,
		"Z":          `"Z" is an offset and not a time zone: write UTC`,
		"utc":        `"utc" is not the name of a time zone: write UTC`,
		"Etc/GMT+02": `"Etc/GMT+02" is not the name of a time zone: write Etc/GMT+2 for a clock that is always behind UTC, or Etc/GMT-2 for one that is ahead`,
		"Etc/UTC+2":  `"Etc/UTC+2" is an offset and not a time zone: write the name of a place, such as Europe/Vienna, whose offset follows its summer time, or Etc/GMT-2, which is +02:00 all year (its sign is inverted)`,

		"CEST":                       `"CEST" is an abbreviation and not the name of a time zone: write Europe/Berlin, Europe/Paris or Europe/Vienna`,
		"PST":                        `"PST" is an abbreviation and not the name of a time zone: write America/Los_Angeles or Asia/Manila`,
		"ist":                        `"ist" is an abbreviation and not the name of a time zone: write Asia/Kolkata, Europe/Dublin or Asia/Jerusalem`,
		"ET":                         `"ET" is an abbreviation and not the name of a time zone: write America/New_York`,
		"CET-1CEST,M3.5.0,M10.5.0/3": `"CET-1CEST,M3.5.0,M10.5.0/3" is a rule and not the name of a time zone: write an IANA name, such as Europe/Vienna`,
		"<+03>-3":                    `"<+03>-3" is a rule and not the name of a time zone: write an IANA name, such as Europe/Vienna`,

		"Vienna":              `"Vienna" is not the name of a time zone: write Europe/Vienna`,
		"New York":            `"New York" is not the name of a time zone: write America/New_York`,
		"america/new york":    `"america/new york" is not the name of a time zone: write America/New_York`,
		"Europe/New_York":     `"Europe/New_York" is not the name of a time zone: write America/New_York`,
		"Calcutta":            `"Calcutta" is not the name of a time zone: write Asia/Kolkata`,
		"São Paulo":           `"São Paulo" is not the name of a time zone: write America/Sao_Paulo`,
		"Zürich":              `"Zürich" is not the name of a time zone: write Europe/Zurich`,
		"Europe/Wien":         `"Europe/Wien" is not the name of a time zone: write Europe/Vienna`,
		"Mumbai":              `"Mumbai" is not the name of a time zone: write Asia/Kolkata`,
		"Buenos Aires":        `"Buenos Aires" is not the name of a time zone: write America/Argentina/Buenos_Aires`,
		"Austria":             `"Austria" is not the name of a time zone: write Europe/Vienna`,
		"Brazil":              `"Brazil" is not the name of a time zone: write one like America/Noronha, America/Belem, America/Fortaleza`,
		"Europe/Viena":        `"Europe/Viena" is not the name of a time zone: write Europe/Vienna`,
		"Amrica/New_York":     `"Amrica/New_York" is not the name of a time zone: write America/New_York`,
		"eastern":             `"eastern" is not the name of a time zone: write America/New_York or America/Toronto`,
		"Hong Kong":           `"Hong Kong" is not the name of a time zone: write Asia/Hong_Kong`,
		"Japan Standard Time": `"Japan Standard Time" is not the name of a time zone: write Asia/Tokyo`,
		"Greenwich Mean Time": `"Greenwich Mean Time" is not the name of a time zone: write Europe/London or UTC`,
		"Pacific/":            `"Pacific/" is not the name of a time zone: write America/Los_Angeles or America/Vancouver`,

		"Narnia":                `"Narnia" is not the name of a time zone, which is a region and a city, such as Europe/Vienna`,
		"":                      `"" is not the name of a time zone, which is a region and a city, such as Europe/Vienna`,
		"../x":                  `"../x" is not the name of a time zone, which is a region and a city, such as Europe/Vienna`,
		strings.Repeat("ü", 40): `"` + strings.Repeat("ü", 32) + `"… is not the name of a time zone, which is a region and a city, such as Europe/Vienna`,
	} {
		if Known(text) {
			t.Errorf("%q is known", text)
		}
		if got := Explain(text); got != want {
			t.Errorf("%q:\n%s\nwant\n%s", text, got, want)
		}
	}
	for _, link := range []string{"US/Eastern", "Asia/Calcutta", "CET", "EST5EDT", "GMT+0", "Etc/GMT-14", "Europe/Kiev", "UTC", "Zulu", "Asia/Katmandu"} {
		if !Known(link) {
			t.Errorf("%s is a name of the tz database", link)
		}
	}
}

func FuzzExplain(f *testing.F) {
	for _, text := range []string{"Europe/Viena", "GMT+2", "(UTC+01:00) Rome", "\xff", "IST", "a\u0301/b", "+5:3", "right/posix/UTC"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		said := Explain(text)
		if !utf8.ValidString(said) || len(said) > 600 || !strings.Contains(said, "not the name of a time zone") && !strings.Contains(said, "write ") {
			t.Errorf("%q: %q", text, said)
		}
		if said != Explain(text) {
			t.Errorf("%q is explained in two ways", text)
		}
	})
}

// TestAlmostAName: what is before, in or behind a name that is meant.
func TestAlmostAName(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"Europe/Vienna\ufeff":          "is not the name of a time zone: write Europe/Vienna",
		"\ufeffEurope/Vienna":          "write Europe/Vienna",
		"Europe/\u200bVienna":          "write Europe/Vienna",
		"\u202aEurope/Vienna\u202c":    "write Europe/Vienna",
		"Europe∕Vienna":                "write Europe/Vienna",
		"Europe／Vienna":                "write Europe/Vienna",
		"Vienna/Europe":                "write Europe/Vienna",
		"Moscow":                       "is not the name of a time zone: write Europe/Moscow",
		"Central European":             "is not the name of a time zone: write Europe/Berlin",
		"MESZ":                         "is an abbreviation and not the name of a time zone",
		"US/Pacific-New":               "write America/Los_Angeles",
		"UTC±0":                        "write UTC",
		"UTC–3":                        "Etc/GMT+3",
		"CET-1CEST":                    "is a rule",
		"CET-1CEST,M3.5.0,M10.5.0/3":   "is a rule",
		"EST5":                         "is a rule",
		"<+03>-3":                      "is a rule",
		"Mitteleuropäische Sommerzeit": "write Europe/Berlin",
		"İstanbul":                     "write Europe/Istanbul",
		"Brasil":                       "write America/Sao_Paulo",
	} {
		if got := Explain(text); !strings.Contains(got, want) {
			t.Errorf("%q: %s, want %s", text, got, want)
		}
	}
}
