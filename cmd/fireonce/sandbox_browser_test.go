package main

import (
	"bytes"
	"fmt"
	"image/png"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/fireonce/fireonce/clients/go/fireoncev1"
	"github.com/fireonce/fireonce/internal/proof/memdir"
)

// watcher is a script for the page. It presses a button, and reports the job's badge and how
// many things X has, whenever one of them changes.
const watcher = `
let said = '', pressed = false;
function look() {
  const button = document.querySelector('#x button[value="lose the answer"]');
  if (!pressed) {
    pressed = true;
    button.click();
  }
  const made = document.querySelector('#x h3').textContent;
  const texts = [...document.querySelectorAll('#x .thing .text')].map(p => p.textContent).join('|');
  const state = document.querySelector('#x .job .state')?.textContent ?? 'no job';
  const line = [state, made, texts, 'armed ' + button.getAttribute('aria-pressed')].join('; ');
  if (line !== said) {
    said = line;
    fetch('/said', { method: 'POST', body: line });
  }
}
new MutationObserver(look).observe(document.getElementById('platforms'), { subtree: true, childList: true, attributes: true, characterData: true });
look();
`

// TestSandboxInABrowser presses a button in Chromium that loses a post's answer. The page must
// show the post once, and Fireonce's state AMBIGUOUS and then SUCCEEDED.
func TestSandboxInABrowser(t *testing.T) {
	long(t)
	if crashRun {
		t.Skip("needs no failpoints")
	}
	if os.Getenv(skipClients) == "1" {
		t.Skipf("%s=1: nothing is tested in a browser", skipClients)
	}
	t.Parallel()
	chromium := findChromium(t)
	s, _ := startSandbox(t, memdir.New(t))
	said := watchedPage(t, chromium, s.Page())
	next := func(want ...string) {
		t.Helper()
		var seen []string
		for {
			select {
			case line := <-said:
				seen = append(seen, line)
				fits := true
				for _, w := range want {
					fits = fits && strings.Contains(line, w)
				}
				if strings.Contains(line, "On X: 2") {
					t.Fatalf("a post is there twice: %s", line)
				}
				if fits {
					return
				}
			case <-waiting(t).Done():
				t.Fatalf("the page never said %q, but\n%s", want, strings.Join(seen, "\n"))
			}
		}
	}
	next("no job", "On X: 0", "armed true")
	const text = "Our new bridge is open. Come and see it!"
	api := dial(t, s.Server())
	if _, err := api.Jobs.ScheduleJob(waiting(t), &fireoncev1.ScheduleJobRequest{
		IdempotencyKey: "bridge-open", Connection: &fireoncev1.ScheduleJobRequest_ConnectionKey{ConnectionKey: "x"}, Payload: socialPost(s, text),
	}); err != nil {
		t.Fatal(err)
	}
	next("AMBIGUOUS", "On X: 1", "Our new bridge is open.", "armed false")
	next("SUCCEEDED", "On X: 1", "Our new bridge is open.")

	picture := filepath.Join(t.TempDir(), "page.png")
	if os.Getenv("FIREONCE_WRITE_PICTURE") == "1" {
		var err error
		if picture, err = filepath.Abs(filepath.Join("..", "..", "docs", "sandbox.png")); err != nil {
			t.Fatal(err)
		}
	}
	out, err := browser(t, chromium, "--screenshot="+picture, "--window-size=1100,760", "--hide-scrollbars", s.Page()+"/").CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	content, err := os.ReadFile(picture)
	if err != nil {
		t.Fatal(err)
	}
	if img, err := png.Decode(bytes.NewReader(content)); err != nil || img.Bounds().Dx() != 1100 {
		t.Errorf("the picture: %v", err)
	}
}

// findChromium returns the browser's path.
func findChromium(t *testing.T) string {
	t.Helper()
	var err error
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		var path string
		if path, err = exec.LookPath(name); err == nil {
			return path
		}
	}
	missing(t, "Chromium", err)
	return ""
}

// browser is a run of Chromium without a window.
func browser(t *testing.T, chromium string, args ...string) *exec.Cmd {
	t.Helper()
	return exec.CommandContext(waiting(t), chromium, append([]string{
		"--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run", "--user-data-dir=" + t.TempDir(),
		// It connects only to this machine.
		"--disable-background-networking", "--disable-component-update", "--disable-sync", "--disable-quic",
	}, args...)...)
}

// watchedPage opens a page in Chromium with the watcher in it, and returns its reports.
func watchedPage(t *testing.T, chromium, at string) <-chan string {
	t.Helper()
	to, err := url.Parse(at)
	if err != nil {
		t.Fatal(err)
	}
	said := make(chan string, 1000)
	proxy := &httputil.ReverseProxy{
		FlushInterval: -1, Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(to); r.Out.Host = r.In.Host },
		ModifyResponse: func(r *http.Response) error {
			if r.Request.URL.Path != "/" {
				return nil
			}
			page, err := io.ReadAll(r.Body)
			if err != nil {
				return err
			}
			page = bytes.Replace(page, []byte("</body>"), []byte(`<script src="/watcher.js" defer></script></body>`), 1)
			r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(page)), int64(len(page))
			r.Header.Set("Content-Length", strconv.Itoa(len(page)))
			return nil
		},
	}
	mux := http.NewServeMux()
	mux.Handle("/", proxy)
	mux.HandleFunc("GET /watcher.js", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/javascript")
		fmt.Fprint(w, watcher)
	})
	mux.HandleFunc("POST /said", func(_ http.ResponseWriter, r *http.Request) {
		line, err := io.ReadAll(io.LimitReader(r.Body, 1<<16))
		if err != nil {
			t.Error(err)
		}
		select {
		case said <- string(line):
		default: // the test has ended
		}
	})
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	startBrowser(t, chromium, server.URL+"/")
	return said
}

// startBrowser runs Chromium until the test ends. Its folder is removed then, so all of its
// processes have ended before: Wait returns when none has the pipe of the output any more.
func startBrowser(t *testing.T, chromium string, args ...string) {
	t.Helper()
	run := browser(t, chromium, args...)
	run.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	run.Stdout, run.Stderr = io.Discard, io.Discard
	if err := run.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = syscall.Kill(-run.Process.Pid, syscall.SIGKILL)
		_ = run.Wait()
	})
}
