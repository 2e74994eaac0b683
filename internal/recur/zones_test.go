package recur

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestMoreZonesThanAreCached: with one zone more than the cache holds, nearly all that are read in
// turn are found there.
func TestMoreZonesThanAreCached(t *testing.T) {
	_, from := embeddedZones(t)
	data, err := os.ReadFile(filepath.Join(from, "Europe", "Vienna"))
	if err != nil {
		t.Fatal(err)
	}
	zones := NewZones(t.TempDir())
	seen := make(map[string]*Zone)
	read := func() (loaded int) {
		for i := range maxZones + 1 {
			name := fmt.Sprintf("Z%d", i)
			zone, err := zones.Load(name)
			if err != nil {
				t.Fatal(err)
			}
			if zone != seen[name] {
				seen[name] = zone
				loaded++
			}
		}
		return loaded
	}
	var list strings.Builder
	for i := range maxZones + 1 {
		fmt.Fprintf(&list, "L Europe/Vienna Z%d\n", i)
		if err := os.WriteFile(filepath.Join(zones.dir, fmt.Sprintf("Z%d", i)), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(zones.dir, "tzdata.zi"), []byte(list.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	if n := read(); n != maxZones+1 {
		t.Fatalf("%d zones were loaded, want all %d", n, maxZones+1)
	}
	if n := read(); n > maxZones/2 {
		t.Errorf("%d of %d zones were loaded again", n, maxZones+1)
	}
}

// TestOnlyNamesAreZones: files in a folder of zone data are no zones by their names alone, and a newer list adds names.
func TestOnlyNamesAreZones(t *testing.T) {
	_, dir := embeddedZones(t)
	vienna, err := os.ReadFile(filepath.Join(dir, "Europe", "Vienna"))
	if err != nil {
		t.Fatal(err)
	}
	for name, data := range map[string]string{
		"localtime": string(vienna), "posixrules": string(vienna), "Local": string(vienna), "posix/Europe/Vienna": string(vienna),
		"right/Europe/Vienna": string(vienna), "Mars/Olympus": string(vienna), "Moon/Tycho": string(vienna), "Mars/Base": string(vienna),
		"tzdata.zi": "# version 2031a\nR E 1 2 o - 3 1 1 -\nZ Mars/Olympus 1 - CET\nL Europe/Vienna Mars/Base\nL Europe/Vienna ../etc/passwd\nZ Factory 0 - -00\nL Europe/Vienna Gone\n",
	} {
		path := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(data), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	zones := NewZones(dir)
	for _, name := range []string{"Europe/Vienna", "US/Eastern", "Asia/Calcutta", "Etc/GMT+2", "CET", "UTC", "Mars/Olympus", "Mars/Base"} {
		if _, err := zones.Load(name); err != nil {
			t.Error(err)
		}
	}
	for name, want := range map[string]string{
		"localtime":           `"localtime" is the zone of whichever server reads it: write its IANA name, such as Europe/Vienna`,
		"posixrules":          `"posixrules" is the zone of whichever server reads it: write its IANA name, such as Europe/Vienna`,
		"Local":               `"Local" is the zone of whichever server reads it: write its IANA name, such as Europe/Vienna`,
		"Factory":             `"Factory" is not the name of a time zone, which is a region and a city, such as Europe/Vienna`,
		"posix/Europe/Vienna": `"posix/Europe/Vienna" is not the name of a time zone: write Europe/Vienna`,
		"right/Europe/Vienna": `"right/Europe/Vienna" is not the name of a time zone: write Europe/Vienna`,
		"europe/vienna":       `"europe/vienna" is not the name of a time zone: write Europe/Vienna`,
		"Moon/Tycho":          `"Moon/Tycho" is not the name of a time zone, which is a region and a city, such as Europe/Vienna`,
		"../etc/passwd":       `"../etc/passwd" is not the name of a time zone, which is a region and a city, such as Europe/Vienna`,
		"tzdata.zi":           `"tzdata.zi" is not the name of a time zone, which is a region and a city, such as Europe/Vienna`,
		"Gone":                "this server has no data of the time zone Gone",
	} {
		if _, err := zones.Load(name); err == nil || err.Error() != want {
			t.Errorf("%s: %v, want %s", name, err, want)
		}
	}
}
