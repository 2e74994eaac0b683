package recur

import (
	"fmt"
	"os"
	"path/filepath"
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
	for i := range maxZones + 1 {
		if err := os.WriteFile(filepath.Join(zones.dir, fmt.Sprintf("Z%d", i)), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if n := read(); n != maxZones+1 {
		t.Fatalf("%d zones were loaded, want all %d", n, maxZones+1)
	}
	if n := read(); n > maxZones/2 {
		t.Errorf("%d of %d zones were loaded again", n, maxZones+1)
	}
}
