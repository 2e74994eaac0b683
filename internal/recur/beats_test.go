package recur

import (
	"archive/zip"
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// goroot returns the directory of the Go distribution, which has the zone data that programs embed.
var goroot = sync.OnceValue(func() string {
	out, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		panic(err)
	}
	return strings.TrimSpace(string(out))
})

// embeddedZones writes the zone data that Go embeds to a directory, so that no test depends on the system's.
func embeddedZones(t testing.TB) (*Zones, string) {
	t.Helper()
	dir := t.TempDir()
	archive, err := zip.OpenReader(filepath.Join(goroot(), "lib", "time", "zoneinfo.zip"))
	if err != nil {
		t.Fatal(err)
	}
	defer archive.Close()
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
		path := filepath.Join(dir, filepath.FromSlash(file.Name))
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return NewZones(dir), dir
}

func beatLine(b Beat) string {
	line := b.Name + " " + b.Instant.Format(time.RFC3339)
	if b.Mark != Plain {
		line += " " + b.Mark.String()
	}
	return line
}

func compile(t testing.TB, spec Spec, zones *Zones) *Schedule {
	t.Helper()
	if spec.ID == "" {
		spec.ID = "s"
	}
	if spec.Zone == "" {
		spec.Zone = "UTC"
	}
	s, err := Compile(spec, zones)
	if err != nil {
		t.Fatalf("compile %+v: %v", spec, err)
	}
	return s
}

// pythonBeats compares beats with the output of testdata/beats.py for zones and years.
type pythonBeats struct {
	t     *testing.T
	zones *Zones

	// short walks one expression in five through all years, and each across transitions.
	short bool

	begin, end time.Time
	zone       string
	count      int
	schedules  []*Schedule // of the zone
	want, got  []string    // the beats that one transition affects
	at         time.Time
}

func (p *pythonBeats) compare(in io.Reader) {
	lines := bufio.NewScanner(in)
	for lines.Scan() {
		kind, rest, _ := strings.Cut(lines.Text(), " ")
		switch kind {
		case "years":
			var first, years int
			if _, err := fmt.Sscan(rest, &first, &years); err != nil {
				p.t.Fatal(err)
			}
			p.begin = time.Date(first, 1, 1, 0, 0, 0, 0, time.UTC)
			p.end = p.begin.AddDate(years, 0, 0)
		case "zone":
			p.endTransition()
			p.zone, p.schedules = rest, nil
		case "=":
			p.expression(rest)
		case "@":
			p.endTransition()
			p.transition(rest)
		default:
			p.want = append(p.want, lines.Text())
		}
	}
	p.endTransition()
	if err := lines.Err(); err != nil {
		p.t.Fatal(err)
	}
}

func (p *pythonBeats) expression(line string) {
	part := strings.SplitN(line, " ", 3)
	s := compile(p.t, Spec{Zone: p.zone, Cron: []string{part[2]}}, p.zones)
	p.schedules = append(p.schedules, s)
	if p.short && len(p.schedules)%5 != 0 {
		return
	}
	digest := sha256.New()
	count := eachBeat(s, p.begin, p.end, func(b Beat) { writeLine(digest, b) })
	p.count += count
	if got, want := sum(count, digest), part[0]+" "+part[1]; got != want {
		p.t.Errorf("%s %q: %s, want %s", p.zone, part[2], got, want)
	}
}

// eachBeat calls yield with the beats from begin to end, and returns their number.
func eachBeat(s *Schedule, begin, end time.Time, yield func(Beat)) int {
	c := s.After(begin.Add(-time.Nanosecond))
	for n := 0; ; n++ {
		b, next, ok := s.Next(c)
		if !ok || !b.Instant.Before(end) {
			return n
		}
		yield(b)
		c = next
	}
}

func writeLine(digest hash.Hash, b Beat) { _, _ = digest.Write([]byte(beatLine(b) + "\n")) }

func sum(count int, digest hash.Hash) string {
	return fmt.Sprintf("%d %s", count, hex.EncodeToString(digest.Sum(nil))[:16])
}

// transition checks an hour before a transition and one after it.
func (p *pythonBeats) transition(line string) {
	text, want, _ := strings.Cut(line, " ")
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		p.t.Fatal(err)
	}
	p.at = at
	digest, count := sha256.New(), 0
	for i, s := range p.schedules {
		count += eachBeat(s, at.Add(-time.Hour), at.Add(time.Hour+time.Second), func(b Beat) {
			writeLine(digest, b)
			if b.Mark != Plain {
				p.got = append(p.got, strconv.Itoa(i)+" "+beatLine(b))
			}
		})
	}
	if got := sum(count, digest); got != want {
		p.t.Errorf("%s at %s: %s, want %s", p.zone, text, got, want)
	}
}

func (p *pythonBeats) endTransition() {
	if !slices.Equal(p.got, p.want) {
		p.t.Errorf("%s at %s:\n%s\nwant:\n%s", p.zone, p.at, strings.Join(p.got, "\n"), strings.Join(p.want, "\n"))
	}
	p.got, p.want = nil, nil
}

// TestBeatsAgainstGolden compares beats with a golden file that a Python program computed from the rules, minute by minute.
// After an update of Go's zone data: PYTHONTZPATH=<zoneinfo.zip, unpacked> testdata/beats.py 2024 5 >testdata/beats.golden.
func TestBeatsAgainstGolden(t *testing.T) {
	zones, _ := embeddedZones(t)
	file, err := os.Open("testdata/beats.golden")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	p := &pythonBeats{t: t, zones: zones, short: testing.Short()}
	p.compare(file)
	if p.count < 5_000_000 && !p.short {
		t.Errorf("compared %d beats only", p.count)
	}
}

func TestBeatsAgainstPython(t *testing.T) {
	if testing.Short() {
		t.Skip("left out of the ordinary tests")
	}
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("python3 is not installed")
	}
	zones, dir := embeddedZones(t)
	cmd := exec.Command(python, "-B", "testdata/beats.py", "2030", "1", "Australia/Lord_Howe", "America/Santiago")
	cmd.Env = append(os.Environ(), "PYTHONTZPATH="+dir)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %s", err, &stderr)
	}
	p := &pythonBeats{t: t, zones: zones}
	p.compare(bytes.NewReader(out))
	if p.count < 50_000 {
		t.Errorf("compared %d beats only", p.count)
	}
}

func TestEmbeddedVersionIsWhatGoDocuments(t *testing.T) {
	script, err := os.ReadFile(filepath.Join(goroot(), "lib", "time", "update.bash"))
	if err != nil {
		t.Fatal(err)
	}
	found := regexp.MustCompile(`(?m)^DATA=(\S+)$`).FindSubmatch(script)
	if found == nil || string(found[1]) != embeddedVersion {
		t.Errorf("Go embeds tzdata %q; embeddedVersion is %q", found, embeddedVersion)
	}
}
