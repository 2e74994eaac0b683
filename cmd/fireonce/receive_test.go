package main

import (
	"database/sql"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib" // the driver "pgx"
	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"github.com/fireonce/fireonce/internal/proof/memdir"
	"github.com/fireonce/fireonce/internal/proof/pgtest"
	"github.com/fireonce/fireonce/internal/proof/proc"
)

// receiveSecret signs the requests of these tests.
const receiveSecret = "whsec_MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE="

// onceReceivers are the receivers of docs/receive-once.md, by the marker of the page's command
// that starts it.
var onceReceivers = []struct {
	name     string
	language marker
	program  func(t *testing.T, root string) program // what comes before --listen, in the page's command
	database func(t *testing.T, dir string) (db *sql.DB, env string)
}{
	{"go", receiveGo, receiverInGo, receiverFile},
	{"python", receivePython, receiverInPython, receiverFile},
	{"typescript", receiveTypeScript, receiverInTypeScript, receiverDatabase},
}

// TestReceiveOnce follows docs/receive-once.md with the receiver of each language: it loses
// answers, sends one event many times concurrently to two processes on one database, fails the
// effect, and forges requests. Each event has one effect.
func TestReceiveOnce(t *testing.T) {
	if crashRun {
		t.Skip("needs no failpoints")
	}
	for _, r := range onceReceivers {
		t.Run(r.name, func(t *testing.T) {
			if r.name != "go" {
				long(t)
				if os.Getenv(skipClients) == "1" {
					t.Skipf("%s=1: programs in other languages are not tested", skipClients)
				}
			}
			root, err := filepath.Abs(filepath.Join("..", ".."))
			if err != nil {
				t.Fatal(err)
			}
			p := r.program(t, root)
			dir := memdir.New(t)
			db, env := r.database(t, dir)
			o := &onceRun{db: db}
			for range 2 {
				o.urls = append(o.urls, startOnceReceiver(t, p, dir, env))
			}
			t.Run("lost answers", func(t *testing.T) { o.lostAnswers(t, r.language) })
			t.Run("concurrent repeats", func(t *testing.T) { o.concurrentRepeats(t) })
			t.Run("failed effect", func(t *testing.T) { o.failedEffect(t) })
			t.Run("forged requests", func(t *testing.T) { o.forged(t) })
		})
	}
}

// onceRun is two processes of a receiver on one database.
type onceRun struct {
	db   *sql.DB
	urls []string
}

// startOnceReceiver starts a receiver and returns its URL.
func startOnceReceiver(t *testing.T, p program, dir, env string) string {
	t.Helper()
	said := &process{said: make(chan struct{}, 1)}
	cmd := exec.Command(p.args[0], append(p.args[1:], "--listen", "127.0.0.1:0")...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, said, said
	cmd.Env = append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + os.Getenv("HOME"), "WEBHOOK_SECRET=" + receiveSecret, env}, p.env...)
	var err error
	if said.Process, err = proc.Start(cmd); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(said.Kill)
	ready := regexp.MustCompile(`listening on (http://\S+)\n`)
	if !said.comesToSay(ready) {
		t.Fatalf("it does not listen:\n%s", said.logs())
	}
	return ready.FindStringSubmatch(said.logs())[1]
}

// lostAnswers runs the page's commands against the receiver, behind a proxy that loses the first
// answer.
func (o *onceRun) lostAnswers(t *testing.T, language marker) {
	marked(t, receivePage, language) // the page starts it
	binary, err := exec.LookPath("fireonce")
	if err != nil {
		t.Fatal(err)
	}
	way := startLossy(t, o.urls[0], func(_ string, number int) fate {
		return [...]fate{cut, deliver}[min(number, 2)-1]
	})
	way.proxy.Transport = &http.Transport{} // the receivers speak HTTP/1.1
	home := memdir.New(t)
	env := []string{"HOME=" + home, "PATH=" + os.Getenv("PATH")}
	server, err := startProcess(binary, home, env, "--dev", "--listen", "127.0.0.1:0", "--ops-listen", "off")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Kill)
	if err := os.WriteFile(filepath.Join(home, "webhook.secret"), []byte(receiveSecret), 0o600); err != nil {
		t.Fatal(err)
	}
	before := o.effects(t)
	cmd := exec.CommandContext(waiting(t), "sh", "-c", "set -e\n"+
		strings.ReplaceAll(strings.Join(marked(t, receivePage, receiveRuns), "\n"), "http://127.0.0.1:9000", way.url))
	cmd.Dir, cmd.Env = home, append(env, "FIREONCE_SERVER="+server.url)
	cmd.WaitDelay = time.Second // what the shell has started may hold its output
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, printed := range marked(t, receivePage, receiveCompares) {
		comparePrinted(t, receivePage, printed, string(out))
	}
	if got := o.effects(t) - before; got != 1 {
		t.Errorf("%d effects\n%s", got, out)
	}
}

// concurrentRepeats sends each of some events many times concurrently, to both processes.
func (o *onceRun) concurrentRepeats(t *testing.T) {
	const events, repeats = 5, 8
	before := o.effects(t)
	var wg sync.WaitGroup
	for i := range events * repeats {
		wg.Go(func() {
			status, text, err := o.post(t, o.urls[i%len(o.urls)], fmt.Sprintf("evt_%d", i%events), time.Now(), nil)
			if err != nil || status != http.StatusOK {
				t.Errorf("%d %q %v", status, text, err)
			}
		})
	}
	wg.Wait()
	if got := o.effects(t) - before; got != events {
		t.Errorf("%d effects of %d events", got, events)
	}
}

// failedEffect has the effect fail: the answer is 500, the id is not kept, and a repeat acts.
func (o *onceRun) failedEffect(t *testing.T) {
	before := o.effects(t)
	o.exec(t, `ALTER TABLE deliveries RENAME TO away`)
	if status, text, err := o.post(t, o.urls[0], "evt_failed", time.Now(), nil); err != nil || status != http.StatusInternalServerError {
		t.Errorf("%d %q %v", status, text, err)
	}
	o.exec(t, `ALTER TABLE away RENAME TO deliveries`)
	for i, want := range []string{"processed\n", "processed before\n"} {
		if status, text, err := o.post(t, o.urls[i], "evt_failed", time.Now(), nil); err != nil || status != http.StatusOK || text != want {
			t.Errorf("%d %q %v", status, text, err)
		}
	}
	if got := o.effects(t) - before; got != 1 {
		t.Errorf("%d effects", got)
	}
}

// forged sends what the secret's holder did not sign, or not now.
func (o *onceRun) forged(t *testing.T) {
	before := o.effects(t)
	for name, c := range map[string]struct {
		at     time.Time
		tamper func(*http.Request)
	}{
		"old":          {time.Now().Add(-6 * time.Minute), nil},
		"new":          {time.Now().Add(6 * time.Minute), nil},
		"other id":     {time.Now(), func(r *http.Request) { r.Header.Set("webhook-id", "evt_other") }},
		"other time":   {time.Now(), func(r *http.Request) { r.Header.Set("webhook-timestamp", "1") }},
		"no id":        {time.Now(), func(r *http.Request) { r.Header.Del("webhook-id") }},
		"no signature": {time.Now(), func(r *http.Request) { r.Header.Del("webhook-signature") }},
		"not base64":   {time.Now(), func(r *http.Request) { r.Header.Set("webhook-signature", "v1,!!") }},
		"other version": {time.Now(), func(r *http.Request) {
			r.Header.Set("webhook-signature", strings.Replace(r.Header.Get("webhook-signature"), "v1,", "v2,", 1))
		}},
		"other body": {time.Now(), func(r *http.Request) { r.Body = io.NopCloser(strings.NewReader(`{"n":9}`)) }},
	} {
		if status, text, err := o.post(t, o.urls[0], "evt_forged", c.at, c.tamper); err != nil || status != http.StatusUnauthorized {
			t.Errorf("%s: %d %q %v", name, status, text, err)
		}
	}
	if got := o.effects(t) - before; got != 0 {
		t.Errorf("%d effects", got)
	}
	rotated := func(r *http.Request) {
		r.Header.Set("webhook-signature", "v1,AAAA "+r.Header.Get("webhook-signature"))
	}
	if status, text, err := o.post(t, o.urls[0], "evt_rotated", time.Now(), rotated); err != nil || status != http.StatusOK {
		t.Errorf("among several signatures: %d %q %v", status, text, err)
	}
}

// post sends an event, signed by the reference library.
func (o *onceRun) post(t *testing.T, url, id string, at time.Time, tamper func(*http.Request)) (int, string, error) {
	t.Helper()
	const body = `{"n":1}`
	wh, err := standardwebhooks.NewWebhook(receiveSecret)
	if err != nil {
		return 0, "", err
	}
	signature, err := wh.Sign(id, at, []byte(body))
	if err != nil {
		return 0, "", err
	}
	r, err := http.NewRequestWithContext(waiting(t), http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		return 0, "", err
	}
	r.Header.Set("webhook-id", id)
	r.Header.Set("webhook-timestamp", strconv.FormatInt(at.Unix(), 10))
	r.Header.Set("webhook-signature", signature)
	if tamper != nil {
		tamper(r)
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		return 0, "", err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	return resp.StatusCode, string(text), err
}

func (o *onceRun) effects(t *testing.T) (n int) {
	t.Helper()
	if err := o.db.QueryRowContext(waiting(t), `SELECT count(*) FROM deliveries`).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

func (o *onceRun) exec(t *testing.T, statement string) {
	t.Helper()
	if _, err := o.db.ExecContext(waiting(t), statement); err != nil {
		t.Fatal(err)
	}
}

func receiverInGo(t *testing.T, root string) program {
	t.Helper()
	binary := filepath.Join(t.TempDir(), "receiver")
	cmd := exec.CommandContext(waiting(t), "go", "build", "-o", binary, "./examples/receiver")
	cmd.Dir = root
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	return program{args: []string{binary}}
}

func receiverInPython(t *testing.T, root string) program {
	t.Helper()
	python, err := exec.LookPath("python3")
	if err != nil {
		missing(t, "Python 3", err)
	}
	source := filepath.Join(root, "examples", "receiver-python", "receiver.py")
	readFile(t, source)
	return program{args: []string{python, source}, env: []string{"PYTHONDONTWRITEBYTECODE=1"}}
}

func receiverInTypeScript(t *testing.T, root string) program {
	t.Helper()
	tsc, node := findTypescript(t, root)
	example := filepath.Join(root, "examples", "receiver-typescript")
	readFile(t, filepath.Join(example, "src", "receiver.ts"))
	// Below the example, because that is where Node looks for node_modules.
	dist := filepath.Join(example, "dist")
	if err := os.MkdirAll(dist, 0o755); err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp(dist, "test-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if out, err := exec.CommandContext(waiting(t), tsc, "-p", example, "--outDir", dir).CombinedOutput(); err != nil {
		t.Fatalf("tsc: %v\n%s", err, out)
	}
	return program{args: []string{node, filepath.Join(dir, "receiver.js")}}
}

// readFile opens what another program reads, so that `go test` takes no result from its cache
// when the file has changed.
func readFile(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// receiverFile is the SQLite file that the receivers in Go and Python use in their folder.
func receiverFile(t *testing.T, dir string) (*sql.DB, string) {
	t.Helper()
	return openFor(t, "sqlite", "file:"+filepath.Join(dir, "receiver.db")+"?_pragma=busy_timeout(5000)"), ""
}

// receiverDatabase is a database of PostgreSQL.
func receiverDatabase(t *testing.T, _ string) (*sql.DB, string) {
	t.Helper()
	url := pgtest.New(t)
	return openFor(t, "pgx", url), "DATABASE_URL=" + url
}

func openFor(t *testing.T, driver, source string) *sql.DB {
	t.Helper()
	db, err := sql.Open(driver, source)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	return db
}

// TestReceiveOncePage checks that the code on the page is that of the examples.
func TestReceiveOncePage(t *testing.T) {
	if crashRun {
		t.Skip("needs no failpoints")
	}
	t.Parallel()
	quoted := 0
	for _, s := range snippets(t, receivePage) {
		file, found := strings.CutPrefix(s.marker, "from ")
		if !found {
			continue
		}
		quoted++
		if text := readFile(t, filepath.Join("..", "..", file)); !strings.Contains(text, s.text) {
			t.Errorf("%s does not have the page's\n%s", file, s.text)
		}
	}
	if quoted < 4 {
		t.Errorf("%d blocks", quoted)
	}
}
