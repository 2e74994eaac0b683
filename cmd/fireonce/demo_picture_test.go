package main

import (
	"encoding/xml"
	"errors"
	"fmt"
	"html"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/fireonce/fireonce/cmd/fireonce/internal/demo"
)

// recorder is a terminal that records its contents over time. It supports the one escape
// sequence that the demo uses, which wipes the line.
type recorder struct {
	mu    sync.Mutex
	begin time.Time
	lines []shownLine // the lines that stay, in order
	last  []shownLine // the latest state of the line that the demo redraws
	line  string      // its present text
}

// shownLine is a line with the time when it was shown, and its row.
type shownLine struct {
	at, until time.Duration
	row       int
	text      string
}

const wipe = "\r\x1b[2K"

func (r *recorder) Write(b []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	at := time.Since(r.begin)
	text := string(b)
	for text != "" {
		if rest, wiped := strings.CutPrefix(text, wipe); wiped {
			text = rest
			r.drawn("", at)
			continue
		}
		line, rest, ended := strings.Cut(text, "\n")
		if i := strings.Index(line, wipe); i > 0 {
			line, rest, ended = line[:i], text[i:], false
		}
		text = rest
		if !ended {
			r.drawn(r.line+line, at)
			continue
		}
		whole := r.line + line
		r.drawn("", at)
		r.lines = append(r.lines, shownLine{at: at, row: len(r.lines), text: whole})
	}
	return len(b), nil
}

// drawn records the text of the line that has not ended.
func (r *recorder) drawn(text string, at time.Duration) {
	if n := len(r.last); n > 0 && r.last[n-1].until == 0 {
		r.last[n-1].until = at
	}
	if strings.ContainsAny(text, "█░") { // the bar: the table's lines come in pieces too
		r.last = append(r.last, shownLine{at: at, row: len(r.lines), text: text})
	}
	r.line = text
}

const (
	pictureSpeed = 2 // times as fast as the recording
	glyphWidth   = 7.83
	lineHeight   = 18
	pictureEdge  = 16
	// shortest is the least time for which a drawn line is shown, in the recording's own time.
	shortest = 600 * time.Millisecond
)

// picture returns an SVG that plays the recording once. A viewer without animation shows its
// end.
func (r *recorder) picture() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	lines, wide := r.lines, 0
	for i, l := range lines {
		lines[i].row++ // below the prompt
		wide = max(wide, utf8.RuneCountInString(l.text))
	}
	lines = append([]shownLine{{text: "$ fireonce demo"}}, lines...)
	width, height := int(float64(wide)*glyphWidth)+2*pictureEdge, len(lines)*lineHeight+2*pictureEdge
	var b strings.Builder
	fmt.Fprintf(&b, "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" width=\"%d\" height=\"%d\" role=\"img\">\n", width, height, width, height)
	b.WriteString("<!-- A run of `fireonce demo`, recorded by `make demo-picture`, played at twice its speed. -->\n" +
		"<style>text{font:13px ui-monospace,SFMono-Regular,Menlo,Consolas,'DejaVu Sans Mono',monospace;fill:#d0d7de;white-space:pre}" +
		".good{fill:#56d364}.bad{fill:#ff7b72}.loud{fill:#e3b341}</style>\n" +
		"<rect width=\"100%\" height=\"100%\" rx=\"8\" fill=\"#0d1117\"/>\n")
	text := func(l shownLine, hidden bool, set string) {
		attributes := ""
		if class := classOf(l.text); class != "" {
			attributes += ` class="` + class + `"`
		}
		if hidden {
			attributes += ` visibility="hidden"`
		}
		fmt.Fprintf(&b, "<text x=\"%d\" y=\"%d\" xml:space=\"preserve\"%s>%s%s</text>\n",
			pictureEdge, pictureEdge+13+l.row*lineHeight, attributes, html.EscapeString(l.text), set)
	}
	for _, l := range lines {
		set := ""
		if l.at > 100*time.Millisecond {
			set = fmt.Sprintf(`<set attributeName="visibility" to="hidden" begin="0s" dur="%.2fs"/>`, (l.at / pictureSpeed).Seconds())
		}
		if l.text != "" {
			text(l, false, set)
		}
	}
	var until time.Duration
	for i, l := range r.last {
		if l.at < until {
			continue
		}
		until = l.at + shortest
		for _, next := range r.last[i+1:] { // until the one that is shown next, or another row begins
			if next.at >= until || next.row != l.row {
				until = min(next.at, max(until, next.at))
				break
			}
			until = max(until, next.until)
		}
		l.row++
		text(l, true, fmt.Sprintf(`<set attributeName="visibility" to="visible" begin="%.2fs" dur="%.2fs"/>`,
			(l.at/pictureSpeed).Seconds(), ((until-l.at)/pictureSpeed).Seconds()))
	}
	b.WriteString("</svg>\n")
	return b.String()
}

func classOf(line string) string {
	switch {
	case strings.Contains(line, "SIGKILL while"):
		return "loud"
	case strings.HasPrefix(strings.TrimSpace(line), "Fireonce, "):
		return "good"
	case strings.HasPrefix(strings.TrimSpace(line), "naive client "):
		return "bad"
	default:
		return ""
	}
}

// TestDemoPicture records a run of the demo as a picture. `make demo-picture` keeps it as
// docs/demo.svg, of a whole run.
func TestDemoPicture(t *testing.T) {
	long(t)
	if crashRun {
		t.Skip("needs no failpoints")
	}
	t.Parallel()
	binary, err := exec.LookPath("fireonce") // this test's binary, see TestMain
	if err != nil {
		t.Fatal(err)
	}
	keep := os.Getenv("FIREONCE_WRITE_PICTURE") == "1"
	options := demo.Options{Jobs: 12, Loss: 1.0 / 3, Seed: 3, Terminal: true, Binary: binary}
	if keep {
		options.Jobs, options.Seed = 100, 1
	}
	r := &recorder{begin: time.Now()}
	options.Out = r
	if err := demo.Run(waiting(t), options); err != nil {
		t.Fatal(err)
	}
	picture := r.picture()
	parsed := xml.NewDecoder(strings.NewReader(picture))
	for err = error(nil); err == nil; _, err = parsed.Token() {
	}
	if !errors.Is(err, io.EOF) {
		t.Errorf("the picture is no XML: %v", err)
	}
	kept, err := os.ReadFile(filepath.Join("..", "..", "docs", "demo.svg"))
	if err != nil && !keep {
		t.Fatal(err)
	}
	// The stored picture must match the demo's present output.
	for _, want := range []string{"$ fireonce demo", "SIGKILL while a request was under way", "Fireonce, keyed", "Fireonce, blind", "naive client", "duplicates"} {
		if !strings.Contains(picture, want) {
			t.Errorf("the picture does not show %q", want)
		}
		if !keep && !strings.Contains(string(kept), want) {
			t.Errorf("docs/demo.svg does not show %q: make demo-picture", want)
		}
	}
	if len(picture) > 32<<10 {
		t.Errorf("the picture has %d bytes", len(picture))
	}
	if keep && !t.Failed() {
		if err := os.WriteFile(filepath.Join("..", "..", "docs", "demo.svg"), []byte(picture), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}
