package sandbox

import (
	"bytes"
	"embed"
	"fmt"
	"html/template"
	"image"
	"image/color"
	"image/jpeg"
	"io/fs"
	"net/http"
	"slices"
	"time"

	"github.com/fireonce/fireonce/internal/sleep"
)

//go:embed web
var web embed.FS

const (
	// mostShown bounds the things, and the jobs, that the page shows of a platform.
	mostShown = 25
	// settled is how long changes are collected before browsers are notified.
	settled = 50 * time.Millisecond
	// alive is how often the page sends an event to a browser without a change.
	alive = 15 * time.Second
)

// page serves the sandbox's page.
type page struct {
	sandbox *Sandbox
	html    *template.Template
	picture []byte
}

// newPage makes the page's handler.
func newPage(s *Sandbox) http.Handler {
	p := &page{sandbox: s, picture: bridge(), html: template.Must(template.New("").Funcs(template.FuncMap{
		"clock": func(t time.Time) string { return t.Local().Format("15:04:05.0") },
	}).ParseFS(web, "web/*.html"))}
	static, err := fs.Sub(web, "web")
	if err != nil {
		panic(err)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", p.show("page"))
	mux.HandleFunc("GET /board", p.show("board"))
	mux.HandleFunc("GET /events", p.events)
	mux.HandleFunc("POST /faults", p.arm)
	mux.Handle("GET /page.js", http.FileServerFS(static))
	mux.Handle("GET /page.css", http.FileServerFS(static))
	mux.HandleFunc("GET /files/bridge.jpg", p.file("image/jpeg", p.picture))
	mux.HandleFunc("GET /files/bridge.mp4", p.file("video/mp4", video))
	return local(http.NewCrossOriginProtection().Handler(headers(mux)))
}

// headers keep texts and payloads of jobs from being more than text.
func headers(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'")
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cache-Control", "no-store")
		next.ServeHTTP(w, r)
	})
}

// platform is one platform on the page.
type platform struct {
	Name, Title, About, Address string
	Faults                      []Fault
	Armed                       Fault
	Things                      []Thing
	Visits                      []Visit
	Made                        int
	Beliefs                     []belief
}

type view struct {
	Server, Page string
	Other        bool // Fireonce is not at the default address of commands
	Trouble      string
	Platforms    []platform
}

func (p *page) view() view {
	s := p.sandbox
	out := view{Server: s.Server(), Page: s.Page(), Other: s.Ports[nameServer] != ServerPort}
	for _, one := range s.sites {
		seen := one.seen()
		slices.Reverse(seen.Things)
		slices.Reverse(seen.Visits)
		beliefs, err := s.board.beliefs(one.Name)
		if err != nil {
			out.Trouble = "Fireonce's event log cannot be read: " + err.Error()
		}
		out.Platforms = append(out.Platforms, platform{
			Name: one.Name, Title: one.Title, About: one.About, Address: one.base, Faults: one.faults, Armed: seen.Armed,
			Things: first(seen.Things), Visits: seen.Visits, Made: len(seen.Things), Beliefs: first(beliefs),
		})
	}
	return out
}

func first[T any](list []T) []T { return list[:min(len(list), mostShown)] }

// show serves the page, or the changing part of it.
func (p *page) show(name string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		var out bytes.Buffer
		if err := p.html.ExecuteTemplate(&out, name, p.view()); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		_, _ = w.Write(out.Bytes()) // the browser may be gone
	}
}

// events notifies a browser of changes, until it disconnects or the sandbox ends.
func (p *page) events(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/event-stream")
	out := http.NewResponseController(w)
	for {
		change := p.sandbox.board.wait()
		if _, err := fmt.Fprint(w, "event: changed\ndata: now\n\n"); err != nil || out.Flush() != nil {
			return
		}
		select {
		case <-change:
		case <-time.After(alive):
		case <-r.Context().Done():
			return
		}
		if !sleep.For(r.Context(), settled) {
			return
		}
	}
}

// arm serves the buttons: a fault for the next request to a platform. The button of the armed fault
// disarms it.
func (p *page) arm(w http.ResponseWriter, r *http.Request) {
	r.Body = http.MaxBytesReader(w, r.Body, 1<<10)
	one, fault := p.sandbox.site(r.FormValue("platform")), Fault(r.FormValue("fault"))
	if one == nil || !slices.Contains(one.faults, fault) {
		http.Error(w, "no such platform, or no such fault there", http.StatusBadRequest)
		return
	}
	if one.seen().Armed == fault {
		fault = None
	}
	one.arm(fault)
	http.Redirect(w, r, "/#"+one.Name, http.StatusSeeOther)
}

func (*page) file(kind string, content []byte) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", kind)
		http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(content))
	}
}

// video is the beginning of an MP4 file, which is enough: the fakes play nothing.
var video = append([]byte("\x00\x00\x00\x18ftypmp42\x00\x00\x00\x00mp42isom"), make([]byte, 4096)...)

// bridge is a picture for posts: a bridge in fog.
func bridge() []byte {
	const width, height = 320, 180
	img := image.NewGray(image.Rect(0, 0, width, height))
	for y := range height {
		for x := range width {
			shade := 215 - y/3
			arch := (x%80 - 40) * (x%80 - 40) / 20
			if y > 90 && y < 100 || y >= 100 && y < 100+arch {
				shade = 90 + x/6
			}
			img.SetGray(x, y, color.Gray{Y: uint8(min(shade, 255))})
		}
	}
	var out bytes.Buffer
	if err := jpeg.Encode(&out, img, nil); err != nil {
		panic(err) // a picture in memory
	}
	return out.Bytes()
}
