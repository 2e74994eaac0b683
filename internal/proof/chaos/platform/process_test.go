package platform_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/fireonce/fireonce/internal/proof/chaos/platform"
)

// TestMain runs a platform when Spawn starts this program again.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "platform" {
		if err := platform.Command(context.Background(), os.Args[2:], os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

func spawn(t *testing.T, opts platform.Options) (*platform.Process, error) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	p, err := platform.Spawn(t.Context(), []string{self, "platform"}, opts)
	if err == nil {
		t.Cleanup(func() { _ = p.Stop() })
	}
	return p, err
}

// TestProcess: a platform in a process of its own is ruled from outside and ends
// with a whole log.
func TestProcess(t *testing.T) {
	p, err := spawn(t, platform.Options{Log: filepath.Join(t.TempDir(), "log"), Seed: 7, Faults: platform.DefaultFaults()})
	if err != nil {
		t.Fatal(err)
	}
	refuse := platform.Faults{Rates: platform.Rates{platform.Refuse: 1}, RetryAfter: platform.Duration(3 * time.Second)}
	if err := p.SetFaults(t.Context(), refuse); err != nil {
		t.Fatal(err)
	}
	if err := p.SetFaults(t.Context(), platform.Faults{Rates: platform.Rates{"nonesuch": 1}}); err == nil || !strings.Contains(err.Error(), "nonesuch") {
		t.Errorf("%v", err)
	}
	if status, _, err := send(t.Context(), http.MethodPost, p.URL+"/hook/opaque/s", "", nil); err != nil || status != 422 {
		t.Errorf("%d %v", status, err)
	}
	if _, body, err := send(t.Context(), http.MethodGet, p.URL+"/control/faults", "", nil); err != nil || !strings.Contains(body, `"retry_after":"3s"`) {
		t.Errorf("%q %v", body, err)
	}
	if err := p.SetFaults(t.Context(), platform.Faults{}); err != nil {
		t.Fatal(err)
	}
	if status, _, err := send(t.Context(), http.MethodPost, p.URL+"/hook/opaque/s", "", nil); err != nil || status != 200 {
		t.Errorf("%d %v", status, err)
	}
	want := platform.Totals{
		Requests: map[string]int{platform.FaceOpaque: 2}, Effects: map[string]int{platform.FaceOpaque: 1},
		Faults: map[platform.Fault]int{platform.Refuse: 1}, LookFaults: map[platform.Fault]int{},
	}
	if got, err := p.Settled(t.Context()); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%+v %v", got, err)
	}
	if err := p.Stop(); err != nil {
		t.Error(err)
	}
	<-p.Done()
	n := 0
	for _, err := range platform.ReadLog(p.Log) {
		if err != nil {
			t.Error(err)
		}
		n++
	}
	if n != 3 {
		t.Errorf("%d records", n)
	}
}

// TestProcessThatCannotStart: the error states why.
func TestProcessThatCannotStart(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if p, err := spawn(t, platform.Options{Log: path}); err == nil || !strings.Contains(err.Error(), "file exists") {
		t.Errorf("%v %v", p, err)
	}
}

// TestEndsWithItsInput: nothing has to end a platform whose campaign was killed.
func TestEndsWithItsInput(t *testing.T) {
	in, stop := io.Pipe()
	out, said := io.Pipe()
	done := make(chan error, 1)
	go func() {
		done <- platform.Command(t.Context(), []string{"-log", filepath.Join(t.TempDir(), "log")}, in, said)
	}()
	line := make([]byte, 100)
	if n, err := out.Read(line); err != nil || !strings.HasPrefix(string(line[:n]), "ready: http://127.0.0.1:") {
		t.Errorf("%q %v", line[:n], err)
	}
	_ = stop.Close()
	if err := <-done; err != nil {
		t.Error(err)
	}
	for _, args := range [][]string{{"-log", ""}, {"-nonesuch"}, {"-log", "x", "-faults", "{"}} {
		if err := platform.Command(t.Context(), args, in, io.Discard); err == nil {
			t.Errorf("%v ran", args)
		}
	}
}
