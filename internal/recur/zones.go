package recur

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"sync"
	"time"

	"github.com/fireonce/fireonce/internal/cache"
	"github.com/fireonce/fireonce/internal/zonename"
)

const (
	maxZoneName = 64
	maxZoneFile = 1 << 20
	maxZones    = 1024 // tzdata has about 600 names
)

// Zones loads and caches time zones. It reads a directory first, if one is set, and then the places where Go looks: $ZONEINFO,
// the system's zone data, and the data embedded in the program. The names are those that the program knows, and those in the
// list tzdata.zi of the directory, which may be newer.
type Zones struct {
	dir    string
	zones  *cache.TTL[string, *Zone]
	listed func() map[string]bool
}

// NewZones returns zones that are read first from a directory of compiled tzdata, if dir is not empty.
func NewZones(dir string) *Zones {
	return &Zones{
		dir: dir, zones: cache.New[string, *Zone](cache.Options{Max: maxZones, RemoveAny: true}),
		listed: sync.OnceValue(func() map[string]bool {
			if dir == "" {
				return nil
			}
			list, err := readBounded(filepath.Join(dir, "tzdata.zi"))
			if err != nil {
				return nil // it has no list, or one that cannot be read: the program's names are what is left
			}
			return zonename.Listed(string(list))
		}),
	}
}

// OpenZones is NewZones for a directory that an operator names. It fails for a directory without
// zone data: otherwise every zone would silently come from elsewhere.
func OpenZones(dir string) (*Zones, error) {
	if dir == "" {
		return NewZones(""), nil
	}
	data, err := readBounded(filepath.Join(dir, "UTC"))
	if err == nil {
		_, err = time.LoadLocationFromTZData("UTC", data)
	}
	if err != nil {
		return nil, fmt.Errorf("%s has no time zone data: its file UTC: %w", dir, err)
	}
	return NewZones(dir), nil
}

// zoneName is the shape of the names that a path may be made of.
var zoneName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_+-]*(/[A-Za-z0-9][A-Za-z0-9_+-]*)*$`)

// Load returns a zone by its IANA name. For a text that is none, the error has the name that was probably meant.
func (z *Zones) Load(name string) (*Zone, error) {
	if !zonename.Known(name) && (len(name) > maxZoneName || !zoneName.MatchString(name) || !z.listed()[name]) {
		return nil, errors.New(zonename.Explain(name))
	}
	if zone, found := z.zones.Get(name); found {
		return zone, nil
	}
	loc, err := z.location(name)
	if err != nil {
		return nil, err
	}
	zone, err := newZone(name, loc)
	if err != nil {
		return nil, err
	}
	return z.zones.GetOrPut(name, func() *Zone { return zone }), nil
}

func (z *Zones) location(name string) (*time.Location, error) {
	if z.dir != "" {
		path := filepath.Join(z.dir, filepath.FromSlash(name))
		data, err := readBounded(path)
		if err == nil {
			loc, err := time.LoadLocationFromTZData(name, data)
			if err != nil {
				return nil, fmt.Errorf("read time zone %s: %w", path, err)
			}
			return loc, nil
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("read time zone: %w", err)
		}
	}
	loc, err := time.LoadLocation(name)
	if err != nil {
		return nil, fmt.Errorf("this server has no data of the time zone %s", name)
	}
	return loc, nil
}

// readBounded reads a file of at most maxZoneFile.
func readBounded(path string) ([]byte, error) {
	info, err := os.Stat(path) //nolint:gosec // the operator names the directory, and zoneName bounds the rest
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() || info.Size() > maxZoneFile {
		return nil, fmt.Errorf("%s is not a file of at most %d bytes", path, maxZoneFile)
	}
	return os.ReadFile(path) //nolint:gosec // the operator names the directory, and zoneName bounds the rest
}

// A DataVersion identifies the zone data in use.
type DataVersion struct {
	Source  string // a directory, a zip file, or "embedded"
	Version string // such as 2025c; "unknown" if the source has no version
}

const (
	embedded       = "embedded"
	unknownVersion = "unknown"

	// The tzdata that this series of Go embeds. The data contains no version; a test compares this with the
	// script with which Go generated it.
	embeddedGo      = "go1.26"
	embeddedVersion = "2025c"
)

// systemDirs are the directories where time.LoadLocation looks before it uses the embedded data.
var systemDirs = []string{"/usr/share/zoneinfo", "/usr/share/lib/zoneinfo", "/usr/lib/locale/TZ", "/etc/zoneinfo"}

// Version returns the source that is read first, and its version. A zone that this source lacks is read from the next one.
func (z *Zones) Version() DataVersion {
	for _, source := range append([]string{z.dir, os.Getenv("ZONEINFO")}, systemDirs...) {
		if source == "" {
			continue
		}
		if info, err := os.Stat(source); err == nil { //nolint:gosec // the operator names it
			if !info.IsDir() {
				return DataVersion{source, unknownVersion}
			}
			return DataVersion{source, dirVersion(source)}
		}
	}
	if version := runtime.Version(); version != embeddedGo && !strings.HasPrefix(version, embeddedGo+".") {
		return DataVersion{embedded, unknownVersion}
	}
	return DataVersion{embedded, embeddedVersion}
}

var dataVersion = regexp.MustCompile(`^(?:# version )?([0-9]{4}[a-z]{1,2}[-0-9a-z]{0,40})\s*$`)

// dirVersion returns the version that zic's makefile or a BSD wrote into a directory.
func dirVersion(dir string) string {
	for _, name := range []string{"tzdata.zi", "+VERSION", "version"} {
		data, err := readBounded(filepath.Join(dir, name))
		if err != nil {
			continue
		}
		line, _, _ := bytes.Cut(data, []byte("\n"))
		if found := dataVersion.FindSubmatch(line); found != nil {
			return string(found[1])
		}
	}
	return unknownVersion
}
