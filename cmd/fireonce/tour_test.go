package main

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/fireonce/fireonce/cmd/fireonce/internal/receiver"
	"github.com/fireonce/fireonce/internal/proof/memdir"
)

// tourLines are the lines that every client must print, in every language and protocol.
var tourLines = []string{
	"scheduled created=true",
	"repeated created=false same=true",
	"conflict ALREADY_EXISTS IDEMPOTENCY_KEY_REUSED payload same job",
	"found SCHEDULED",
	"event 1 SCHEDULED",
	"canceled prevented=true",
	"event 2 CANCELED",
	"unknown NEEDS_RESOLUTION",
	"resolved SUCCEEDED",
	"violation INVALID_ARGUMENT REQUEST_INVALID idempotency_key",
}

// TestTour runs the same calls with a generated client of each language: schedule, repeat,
// conflict, read by key, stream with a cursor, cancel, resolve, and an error by field.
func TestTour(t *testing.T) {
	long(t)
	for name, prepare := range map[string]func(t *testing.T, root string) program{
		"go": goTour, "python": pythonTour, "typescript": typescriptTour, "ruby": rubyTour, "java": javaTour,
	} {
		t.Run(name, func(t *testing.T) {
			p := prepared(t, prepare)
			at, receiver := startTour(t)
			args := []string{"--server", at, "--receiver", receiver}
			if name == "ruby" || name == "java" {
				args = []string{at, receiver}
			}
			env := append([]string{
				"PATH=" + os.Getenv("PATH"), "HOME=" + os.Getenv("HOME"), "FIREONCE_API_KEY=" + clientsKey,
			}, p.env...)
			out := startOutput(t, slices.Concat(p.args, args), env)
			err := out.wait()
			if err != nil || !slices.Equal(out.seen, tourLines) {
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
}

// TestTourInABrowser runs the tour in Chromium, from another origin than the server's.
func TestTourInABrowser(t *testing.T) {
	long(t)
	p := prepared(t, browserTour)
	for _, protocol := range []string{"connect", "grpc-web"} {
		t.Run(protocol, func(t *testing.T) {
			page := startPage(t, p.args[1])
			at, receiver := startTour(t, "--allow-origin", page.url)
			query := url.Values{"server": {at}, "receiver": {receiver}, "key": {clientsKey}, "protocol": {protocol}}
			startBrowser(t, p.args[0], page.url+"/tour.html?"+query.Encode())
			select {
			case got := <-page.done:
				if !slices.Equal(strings.Split(got, "\n"), tourLines) {
					t.Errorf("the browser saw:\n%s", got)
				}
			case <-waiting(t).Done():
				t.Error("the page never came to its end")
			}
		})
	}
}

// startTour starts a server, and a receiver that never answers.
func startTour(t *testing.T, args ...string) (server, silent string) {
	t.Helper()
	r, err := receiver.Start(receiver.Options{Plan: func(receiver.Request) receiver.Answer { return receiver.Silence }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	binary, err := exec.LookPath("fireonce") // this test's binary, see TestMain
	if err != nil {
		t.Fatal(err)
	}
	env := append(os.Environ(), "FIREONCE_API_KEY="+clientsKey)
	p, err := startProcess(binary, memdir.New(t), env, append([]string{"--dev", "--grace", "1s", "--listen", "127.0.0.1:0"}, args...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Kill)
	return p.url, strings.TrimSuffix(r.URL(""), "/")
}

func goTour(t *testing.T, root string) program {
	t.Helper()
	binary := filepath.Join(t.TempDir(), "tour")
	runIn(t, filepath.Join(root, "examples", "go"), "go", "build", "-o", binary, "./tour")
	return program{args: []string{binary}}
}

func pythonTour(t *testing.T, root string) program {
	t.Helper()
	p := pythonProgram(t, root)
	p.args[1] = filepath.Join(root, "examples", "python", "tour.py")
	return p
}

func typescriptTour(t *testing.T, root string) program {
	t.Helper()
	p := typescriptProgram(t, root)
	p.args[1] = filepath.Join(filepath.Dir(p.args[1]), "tour-node.js")
	return p
}

func rubyTour(t *testing.T, root string) program {
	t.Helper()
	ruby, err := exec.LookPath("ruby")
	if err == nil {
		_, err = exec.LookPath("grpc_ruby_plugin")
	}
	if err != nil {
		missing(t, "Ruby with grpc, and protoc with its plugin", err)
	}
	gen := readmeBlock(t, root, "ruby")
	return program{args: []string{ruby, "-I", gen, filepath.Join(root, "examples", "ruby", "tour.rb")}}
}

func javaTour(t *testing.T, root string) program {
	t.Helper()
	java, err := exec.LookPath("java")
	if err == nil {
		_, err = exec.LookPath("grpc_java_plugin")
	}
	if err == nil {
		_, err = os.Stat("/usr/share/java/grpc-netty.jar")
	}
	if err != nil {
		missing(t, "a JDK, protoc with its plugin, and gRPC's jars", err)
	}
	// Halves the compile time: the program runs too briefly for the JVM's second compiler.
	t.Setenv("JAVA_TOOL_OPTIONS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")
	gen := readmeBlock(t, root, "java")
	return program{args: []string{java, "@" + filepath.Join(gen, "classpath"), "Tour"}}
}

// browserTour compiles the tour and returns Chromium with the directory of the tour's code.
func browserTour(t *testing.T, root string) program {
	t.Helper()
	return program{args: []string{findChromium(t), filepath.Dir(typescriptProgram(t, root).args[1])}}
}

// readmeBlock runs the commands of an example's README with another directory for the generated
// files, and returns that directory.
func readmeBlock(t *testing.T, root, language string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, "examples", language, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	block := regexp.MustCompile("(?s)<!-- tour_test.go runs this block -->\n```sh\n(.*?)```").FindSubmatch(text)
	if block == nil {
		t.Fatalf("the README of %s has no block that generates", language)
	}
	gen := t.TempDir()
	runIn(t, root, "sh", "-ec", strings.ReplaceAll(string(block[1]), "examples/"+language+"/gen", gen))
	return gen
}

func runIn(t *testing.T, dir, name string, args ...string) {
	t.Helper()
	cmd := exec.CommandContext(waiting(t), name, args...)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s %q: %v\n%s", name, args, err, out)
	}
}

// page serves the tour's page, and receives the lines of the browser.
type page struct {
	url  string
	done chan string
}

func startPage(t *testing.T, code string) page {
	t.Helper()
	root, err := filepath.Abs(filepath.Join("..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	p := page{done: make(chan string, 1)}
	mux := http.NewServeMux()
	mux.Handle("GET /node_modules/", http.FileServer(http.Dir(root)))
	mux.Handle("GET /gen/", http.FileServer(http.Dir(filepath.Join(code, "..", "..", ".."))))
	mux.Handle("GET /examples/typescript/src/", http.FileServer(http.Dir(filepath.Join(code, "..", "..", ".."))))
	mux.HandleFunc("GET /tour.html", func(w http.ResponseWriter, _ *http.Request) {
		text, err := os.ReadFile(filepath.Join(root, "examples", "typescript", "tour.html"))
		if err != nil {
			t.Error(err)
		}
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprint(w, strings.Replace(string(text), `src="tour-browser.js"`, `src="/examples/typescript/src/tour-browser.js"`, 1))
	})
	mux.HandleFunc("POST /done", func(_ http.ResponseWriter, r *http.Request) {
		got, err := io.ReadAll(io.LimitReader(r.Body, 1<<16))
		if err != nil {
			t.Error(err)
		}
		select {
		case p.done <- string(got):
		default: // the page has ended before
		}
	})
	s := httptest.NewServer(mux)
	t.Cleanup(s.Close)
	p.url = s.URL
	return p
}
