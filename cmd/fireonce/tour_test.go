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

// TestTour runs the same calls with a client of each language, which is generated from a copy of
// the contract alone by the commands of docs/clients.md: schedule, repeat, conflict, read by key,
// stream with a cursor, cancel, resolve, and an error by field.
func TestTour(t *testing.T) {
	long(t)
	for name, prepare := range map[string]func(t *testing.T, root string) program{
		"go": goTour, "python": pythonTour, "typescript": typescriptTour, "php": phpTour, "ruby": rubyTour, "java": javaTour,
	} {
		t.Run(name, func(t *testing.T) {
			p := prepared(t, prepare)
			at, receiver := startTour(t)
			args := []string{"--server", at, "--receiver", receiver}
			if name == "php" || name == "ruby" || name == "java" {
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

// clientFiles are the Go client's own, which stand above the generated packages.
var clientFiles = []string{"authorize.go", "events.go", "fireonce.go", "repeat.go", "go.mod", "go.sum"}

// goTour builds the tour with the client's own code and the generated packages.
func goTour(t *testing.T, root string) program {
	t.Helper()
	dir := generateAlone(t, root, "gen/proto", "Go")
	for _, name := range clientFiles {
		copyFile(t, filepath.Join(root, "clients", "go", name), filepath.Join(dir, "client", name))
	}
	copyFile(t, filepath.Join(root, "examples", "go.work.sum"), filepath.Join(dir, "go.work.sum"))
	work := "go 1.24.0\n\nuse (\n\t./client\n\t./go\n)\n\nreplace github.com/fireonce/fireonce/clients/go v0.1.0 => ./client\n"
	if err := os.WriteFile(filepath.Join(dir, "go.work"), []byte(work), 0o600); err != nil {
		t.Fatal(err)
	}
	copyFolder(t, filepath.Join(root, "examples", "go"), filepath.Join(dir, "go"))
	binary := filepath.Join(dir, "run")
	runIn(t, filepath.Join(dir, "go"), "go", "build", "-trimpath", "-o", binary, "./tour") // not compiled again for another dir
	return program{args: []string{binary}}
}

func pythonTour(t *testing.T, root string) program {
	t.Helper()
	p := pythonProgram(t, root)
	p.args[1] = filepath.Join(filepath.Dir(p.args[1]), "tour.py")
	return p
}

// typescriptTour compiles the tour with the generated code in the place of gen/ts.
func typescriptTour(t *testing.T, root string) program {
	t.Helper()
	tsc, node := findTypescript(t, root)
	dir := generateAlone(t, root, "gen/proto", "TypeScript")
	example := filepath.Join(dir, "examples", "typescript")
	copyFolder(t, filepath.Join(root, "examples", "typescript", "src"), filepath.Join(example, "src"))
	copyFile(t, filepath.Join(root, "examples", "typescript", "tsconfig.json"), filepath.Join(example, "tsconfig.json"))
	copyFile(t, filepath.Join(root, "examples", "typescript", "package.json"), filepath.Join(dir, "package.json"))
	if err := os.MkdirAll(filepath.Join(dir, "gen"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(filepath.Join(dir, "client"), filepath.Join(dir, "gen", "ts")); err != nil {
		t.Fatal(err)
	}
	runIn(t, example, tsc)
	return program{args: []string{node, filepath.Join(example, "dist", "examples", "typescript", "src", "tour-node.js")}}
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
	dir := generateAlone(t, root, "gen/proto", "Ruby")
	return program{args: []string{ruby, "-I", filepath.Join(dir, "client"), filepath.Join(root, "examples", "ruby", "tour.rb")}}
}

func phpTour(t *testing.T, root string) program {
	t.Helper()
	php, err := exec.LookPath("php")
	if err == nil {
		_, err = os.Stat("/usr/share/php/Google/Protobuf/Internal/Message.php")
	}
	if err != nil {
		missing(t, "PHP with its classes of Protocol Buffers", err)
	}
	dir := generateAlone(t, root, "gen/proto", "PHP")
	return program{args: []string{php, "-d", "include_path=" + filepath.Join(dir, "client") + ":/usr/share/php", filepath.Join(root, "examples", "php", "tour.php")}}
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
	text, err := os.ReadFile(filepath.Join(root, "examples", "java", "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	block := regexp.MustCompile("(?s)<!-- tour_test.go runs this block -->\n```sh\n(.*?)```").FindSubmatch(text)
	if block == nil {
		t.Fatal("the README of the Java example has no block that compiles")
	}
	dir := generateAlone(t, root, "gen/proto", "Java")
	copyFile(t, filepath.Join(root, "examples", "java", "Tour.java"), filepath.Join(dir, "Tour.java"))
	runIn(t, dir, "sh", "-ec", string(block[1]))
	classpath, err := os.ReadFile(filepath.Join(dir, "classpath")) // names classes without their folder
	if err != nil {
		t.Fatal(err)
	}
	args := strings.Fields(strings.Replace(string(classpath), "-cp classes", "-cp "+filepath.Join(dir, "classes"), 1))
	return program{args: slices.Concat([]string{java}, args, []string{"Tour"})}
}

// browserTour compiles the tour and returns Chromium with the directory of the tour's code.
func browserTour(t *testing.T, root string) program {
	t.Helper()
	return program{args: []string{findChromium(t), filepath.Dir(typescriptProgram(t, root).args[1])}}
}

func copyFile(t *testing.T, from, to string) {
	t.Helper()
	text, err := os.ReadFile(from)
	if err == nil {
		err = os.WriteFile(to, text, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func copyFolder(t *testing.T, from, to string) {
	t.Helper()
	if err := os.CopyFS(to, os.DirFS(from)); err != nil {
		t.Fatal(err)
	}
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
