package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/fireonce/fireonce/cmd/fireonce/internal/receiver"
	"github.com/fireonce/fireonce/internal/proof/heldport"
)

// TestScripts runs testdata/*.txtar over the real binary.
func TestScripts(t *testing.T) {
	if crashRun {
		t.Skip("needs no failpoints")
	}
	scripts, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(scripts) == 0 {
		t.Fatalf("no scripts: %v", err)
	}
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata",
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Setup: func(env *testscript.Env) error {
			env.Values[scriptKey{}] = &script{}
			env.Setenv("TZ", "UTC")
			// No script depends on whether the default port is free.
			env.Setenv("FIREONCE_LISTEN", "127.0.0.1:0")
			// Hundreds of short programs: their garbage is collected as often as the test's own.
			if v, ok := os.LookupEnv("GOGC"); ok {
				env.Setenv("GOGC", v)
			}
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"server": serverCmd, "receiver": receiverCmd, "listener": listenerCmd, "exits": exitsCmd, "setvar": setvarCmd, "mode": modeCmd,
		},
	})
}

type scriptKey struct{}

// script is the state that the commands of one script share.
type script struct {
	server   *process
	port     *heldport.Port // the server's
	listener *process
	receiver *receiver.Receiver
}

func scriptOf(ts *testscript.TestScript) *script { return ts.Value(scriptKey{}).(*script) }

// scriptVars are the variables of a script that its servers get.
var scriptVars = []string{"PATH", "HOME", "TZ", "GOGC", "FIREONCE_API_KEY", "FIREONCE_NEXT_API_KEY", "FIREONCE_KEY_FILE", "FIREONCE_KEYS", "FIREONCE_REQUIRE_API_KEY", "FIREONCE_DATABASE", "FIREONCE_DEV", "FIREONCE_GRACE", "FIREONCE_WEBHOOK_SECRET"}

// serverCmd is "server start [flags]", "server stop" (SIGTERM, must exit with
// 0), "server kill", "server ends CODE", which waits until it has ended by itself, and
// after one of these "server log PATTERN".
func serverCmd(ts *testscript.TestScript, neg bool, args []string) {
	s := scriptOf(ts)
	if neg && args[0] != "log" || len(args) == 0 {
		ts.Fatalf("usage: server start|stop|kill|ends|log")
	}
	switch args[0] {
	case "start":
		startServer(ts, s, args[1:])
	case "stop":
		ts.Check(s.server.stop())
	case "kill":
		s.server.Kill()
	case "ends":
		select {
		case <-s.server.Done():
		case <-time.After(patience):
			ts.Fatalf("the server goes on; the log is:\n%s", s.server.logs())
		}
		if got := fmt.Sprint(s.server.ExitCode()); got != args[1] {
			ts.Fatalf("the server ended with %s; the log is:\n%s", got, s.server.logs())
		}
	case "log":
		words := regexp.MustCompile(args[1])
		found := words.MatchString(s.server.logs())
		if !neg { // the output may still be on its way
			found = s.server.comesToSay(words)
		}
		if found == neg {
			ts.Fatalf("the log is:\n%s", s.server.logs())
		}
	}
}

func startServer(ts *testscript.TestScript, s *script, flags []string) {
	if s.port == nil { // later ones use the same
		port, err := heldport.Hold(0)
		ts.Check(err)
		ts.Defer(func() { _ = port.Close() })
		s.port = port
	}
	// The port after it, where gRPC is by default, may be kept for another.
	flags = slices.Concat([]string{"--grpc-listen", "127.0.0.1:0"}, flags, []string{"--listen", s.port.Addr()})
	p, err := startProcess(binaryOf(ts), ts.MkAbs("."), environment(ts), flags...)
	ts.Check(err)
	ts.Defer(p.Kill)
	s.server = p
	ts.Setenv("FIREONCE_SERVER", p.url)
}

// receiverCmd is "receiver start [dedupes] [reset]", which sets RECEIVER, and
// "receiver has SUBJECT REQUESTS EFFECTS".
func receiverCmd(ts *testscript.TestScript, _ bool, args []string) {
	s := scriptOf(ts)
	switch args[0] {
	case "start":
		var o receiver.Options
		for _, word := range args[1:] {
			switch word {
			case "dedupes":
				o.Dedupes = true
			case "reset":
				o.Plan = func(receiver.Request) receiver.Answer { return receiver.Reset }
			default:
				ts.Fatalf("receiver start %s?", word)
			}
		}
		r, err := receiver.Start(o)
		ts.Check(err)
		ts.Defer(func() { r.Close() })
		s.receiver = r
		ts.Setenv("RECEIVER", strings.TrimSuffix(r.URL(""), "/"))
	case "has":
		want := fmt.Sprintf("%s requests, %s effects", args[2], args[3])
		if got := fmt.Sprintf("%d requests, %d effects", s.receiver.Requests(args[1]), s.receiver.Effects(args[1])); got != want {
			ts.Fatalf("%s: %s, not %s", args[1], got, want)
		}
	}
}

// exitsCmd is "exits CODE program args…".
func exitsCmd(ts *testscript.TestScript, _ bool, args []string) {
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	code := 0
	if err := ts.Exec(args[1], args[2:]...); err != nil {
		var exited *exec.ExitError
		if !errors.As(err, &exited) {
			ts.Fatalf("%v", err)
		}
		code = exited.ExitCode()
	}
	if code != want {
		ts.Fatalf("exit code %d, not %d", code, want)
	}
}

// setvarCmd is "setvar NAME PATTERN": the pattern's group, as found in stdout.
func setvarCmd(ts *testscript.TestScript, _ bool, args []string) {
	found := regexp.MustCompile(args[1]).FindStringSubmatch(ts.ReadFile("stdout"))
	if len(found) != 2 {
		ts.Fatalf("%s is not in stdout", args[1])
	}
	ts.Setenv(args[0], found[1])
}

// modeCmd is "mode FILE 0600".
func modeCmd(ts *testscript.TestScript, _ bool, args []string) {
	info, err := os.Stat(ts.MkAbs(args[0]))
	ts.Check(err)
	if got := fmt.Sprintf("%#o", info.Mode().Perm()); got != args[1] {
		ts.Fatalf("%s has mode %s", args[0], got)
	}
}
