package recur

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"sort"
	"strings"
	"time"

	"github.com/fireonce/fireonce/internal/cache"
)

const (
	maxZoneName = 64
	maxZoneFile = 1 << 20
	maxZones    = 1024 // tzdata has about 600 names
)

// Zones loads and caches time zones. It reads a directory first, if one is set, and then the places where Go looks: $ZONEINFO,
// the system's zone data, and the data embedded in the program.
type Zones struct {
	dir   string
	zones *cache.TTL[string, *Zone]
}

// NewZones returns zones that are read first from a directory of compiled tzdata, if dir is not empty.
func NewZones(dir string) *Zones {
	return &Zones{dir: dir, zones: cache.New[string, *Zone](cache.Options{Max: maxZones, RemoveAny: true})}
}

// OpenZones is NewZones for a directory that an operator names. It fails for a directory without
// zone data: otherwise every zone would silently come from elsewhere.
func OpenZones(dir string) (*Zones, error) {
	if dir == "" {
		return NewZones(""), nil
	}
	data, err := readBounded(filepath.Join(dir, "UTC"), maxZoneFile)
	if err == nil {
		_, err = time.LoadLocationFromTZData("UTC", data)
	}
	if err != nil {
		return nil, fmt.Errorf("%s has no time zone data: its file UTC: %w", dir, err)
	}
	return NewZones(dir), nil
}

var zoneName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_+-]*(/[A-Za-z0-9][A-Za-z0-9_+-]*)*$`)

// Load returns a zone by its IANA name.
func (z *Zones) Load(name string) (*Zone, error) {
	if len(name) > maxZoneName || !zoneName.MatchString(name) || name == "Local" {
		return nil, fmt.Errorf("%s is not the name of a time zone, such as Europe/Vienna", quote(name))
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
		data, err := readBounded(path, maxZoneFile)
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
		return nil, fmt.Errorf("%s is not a known time zone, such as Europe/Vienna", quote(name))
	}
	return loc, nil
}

func readBounded(path string, limit int64) ([]byte, error) {
	info, err := os.Stat(path) //nolint:gosec // the operator names the directory, and zoneName bounds the rest
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() || info.Size() > limit {
		return nil, fmt.Errorf("%s is not a file of at most %d bytes", path, limit)
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
		data, err := readBounded(filepath.Join(dir, name), maxZoneFile)
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

// A Zone maps instants to civil times, and back. It holds the offsets of all years in which a beat can be, so that crossing
// a transition costs a search in memory.
type Zone struct {
	name  string
	loc   *time.Location
	spans []span
}

// A span is a stretch of time with one offset. It ends where the next one begins.
type span struct{ from, offset int64 }

const (
	// No wall clock differs from UTC by more: RFC 8536 bounds offsets to 25 and 26 hours.
	maxOffset = 26 * secondsPerHour
	maxSpans  = 5000
)

func newZone(name string, loc *time.Location) (*Zone, error) {
	z := &Zone{name: name, loc: loc}
	at := time.Unix(int64(minCivil)-2*maxOffset, 0)
	last := time.Unix(int64(maxCivil)+2*maxOffset, 0)
	for {
		_, offset := at.In(loc).Zone()
		if offset > maxOffset || offset < -maxOffset {
			return nil, fmt.Errorf("the zone %s has an offset of %d s", quote(name), offset)
		}
		switch n := len(z.spans); {
		case n == 0:
			z.spans = append(z.spans, span{math.MinInt64 / 2, int64(offset)})
		case z.spans[n-1].offset != int64(offset):
			z.spans = append(z.spans, span{at.Unix(), int64(offset)})
		}
		if len(z.spans) > maxSpans {
			return nil, fmt.Errorf("the zone %s has more than %d transitions", quote(name), maxSpans)
		}
		_, end := at.In(loc).ZoneBounds()
		if end.IsZero() || end.After(last) {
			return z, nil
		}
		if !end.After(at) {
			// Where a rule continues forever, Go ends each year after 365 days: on the last day of a leap year, that end is past.
			end = at.Add(secondsPerDay * time.Second)
		}
		at = end
	}
}

// Name returns the IANA name.
func (z *Zone) Name() string { return z.name }

// index returns the span that an instant is in.
func (z *Zone) index(instant int64) int {
	return sort.Search(len(z.spans), func(i int) bool { return z.spans[i].from > instant }) - 1
}

// end returns the first instant after the span.
func (z *Zone) end(i int) int64 {
	if i+1 < len(z.spans) {
		return z.spans[i+1].from
	}
	return math.MaxInt64 / 2
}

// Offset returns the zone's offset at an instant, in seconds east of UTC.
func (z *Zone) Offset(instant time.Time) int { return int(z.offset(instant.Unix())) }

func (z *Zone) offset(instant int64) int64 { return z.spans[z.index(instant)].offset }

func (z *Zone) wall(instant int64) Civil { return Civil(instant + z.offset(instant)) }

// reach returns the first instant at which the wall clock shows c or has passed it. It never decreases
// while c increases, whatever the zone's transitions are.
func (z *Zone) reach(c Civil) int64 {
	for i := max(0, z.index(int64(c)-maxOffset)); ; i++ {
		if at := max(z.spans[i].from, int64(c)-z.spans[i].offset); at < z.end(i) {
			return at
		}
	}
}

// reached returns the latest civil time that the wall clock has shown up to the instant: the inverse of reach.
func (z *Zone) reached(instant int64) Civil {
	i := z.index(instant)
	latest := instant + z.spans[i].offset
	for ; i > 0 && z.spans[i].from > instant-2*maxOffset; i-- {
		latest = max(latest, z.spans[i].from-1+z.spans[i-1].offset)
	}
	return Civil(latest)
}

// passes calls yield with each instant at which the wall clock shows c, in order, until yield returns false.
func (z *Zone) passes(c Civil, yield func(int64) bool) {
	for i := max(0, z.index(int64(c)-maxOffset)); i < len(z.spans) && z.spans[i].from <= int64(c)+maxOffset; i++ {
		if at := int64(c) - z.spans[i].offset; at >= z.spans[i].from && at < z.end(i) && !yield(at) {
			return
		}
	}
}

// pass returns the number of the pass in which an instant's wall clock time is shown, from 1.
func (z *Zone) pass(instant int64) int {
	i := z.index(instant)
	if z.spans[i].from < instant-2*maxOffset {
		return 1
	}
	n := 0
	z.passes(Civil(instant+z.spans[i].offset), func(at int64) bool {
		n++
		return at < instant
	})
	return n
}

// Resolve returns the instant of a civil time under the rule of fixed hours: the first pass of a time that occurs twice,
// and the first instant after the gap for a time that does not exist.
func (z *Zone) Resolve(c Civil) (time.Time, Mark) {
	at, mark := z.resolve(c)
	return time.Unix(at, 0).UTC(), mark
}

func (z *Zone) resolve(c Civil) (int64, Mark) {
	at := z.reach(c)
	i := z.index(at)
	if at+z.spans[i].offset != int64(c) {
		return at, Shifted
	}
	if z.end(i) > at+2*maxOffset {
		return at, Plain
	}
	n := 0
	z.passes(c, func(int64) bool { n++; return n < 2 })
	if n == 2 {
		return at, FirstOfTwo
	}
	return at, Plain
}
