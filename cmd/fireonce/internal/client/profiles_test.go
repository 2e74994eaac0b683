package client

import (
	"encoding/pem"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/fireonce/fireonce/cmd/fireonce/internal/profile"
)

// TestLoginAgain: a new key for a profile that a flag names goes to the profile's server,
// whatever the environment says, and the profile keeps its files.
func TestLoginAgain(t *testing.T) {
	var got []string
	serve := func(name string) string {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			got = append(got, name)
			w.Header().Set("Content-Type", "application/proto")
		}))
		t.Cleanup(s.Close)
		return s.URL
	}
	a, b := serve("a"), serve("b")
	for name, c := range map[string]struct {
		args         []string
		called, want string
	}{
		"the profile by flag":           {args: []string{"--profile", "staging"}, called: "a", want: a},
		"the profile and a server":      {args: []string{"--profile", "staging", "--server", b}, called: "b", want: b},
		"a new profile":                 {args: []string{"--profile", "new"}, called: "b", want: b},
		"the default, by the variables": {called: "b", want: b},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("XDG_CONFIG_HOME", t.TempDir())
			t.Setenv("HOME", t.TempDir())
			t.Setenv(profileVar, "")
			t.Setenv(serverVar, b)
			file := &profile.File{Current: "staging", Profiles: map[string]profile.Profile{"staging": {Server: a, APIKey: "old"}}}
			if err := file.Save(); err != nil {
				t.Fatal(err)
			}
			got = nil
			root := keyLoginCommand()
			root.Reader, root.Writer, root.ErrWriter = strings.NewReader("new\n"), io.Discard, io.Discard
			if err := root.Run(t.Context(), append([]string{"login"}, c.args...)); err != nil {
				t.Fatal(err)
			}
			file, err := profile.Load()
			if err != nil {
				t.Fatal(err)
			}
			_, p, _ := file.For("")
			if len(got) != 1 || got[0] != c.called || p.Server != c.want || p.APIKey != "new" {
				t.Errorf("called %v; stored %s, not %s", got, p.Server, c.want)
			}
		})
	}
}

// TestLoginAgainKeepsFiles: a new key needs no other flags than the first one had.
func TestLoginAgainKeepsFiles(t *testing.T) {
	s := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/proto")
	}))
	t.Cleanup(s.Close)
	t.Setenv("XDG_CONFIG_HOME", t.TempDir())
	t.Setenv("HOME", t.TempDir())
	for _, name := range []string{profileVar, serverVar, caFileVar, clientCertVar, clientKeyVar} {
		t.Setenv(name, "")
	}
	ca := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw}), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"login", "--server", s.URL, "--ca-file", ca}, {"login"}} {
		root := keyLoginCommand()
		root.Reader, root.Writer, root.ErrWriter = strings.NewReader("key\n"), io.Discard, io.Discard
		if err := root.Run(t.Context(), args); err != nil {
			t.Fatalf("%q: %v", args, err)
		}
	}
	if file, err := profile.Load(); err != nil || file.Profiles[profile.Default].CAFile != ca {
		t.Errorf("%v, %v", file, err)
	}
}
