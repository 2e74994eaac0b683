package main

import (
	"os"
	"path/filepath"
	"regexp"

	"github.com/rogpeppe/go-internal/testscript"
)

var listeningOn = regexp.MustCompile(`Listening on (http://[^;]+);`)

// listenerCmd is "listener start [flags]", which runs `fireonce listen` on a free port and sets
// LISTENER; "listener log PATTERN", which waits until it has printed that; and "listener stop".
func listenerCmd(ts *testscript.TestScript, neg bool, args []string) {
	s := scriptOf(ts)
	if neg || len(args) == 0 {
		ts.Fatalf("usage: listener start|log|stop")
	}
	switch args[0] {
	case "start":
		p, err := startListener(binaryOf(ts), ts.MkAbs("."), environment(ts), append([]string{"listen", "--addr", "127.0.0.1:0"}, args[1:]...)...)
		ts.Check(err)
		ts.Defer(p.Kill)
		s.listener = p
		ts.Setenv("LISTENER", p.url)
	case "log":
		if !s.listener.comesToSay(regexp.MustCompile("(?m)" + args[1])) {
			ts.Fatalf("the listener printed:\n%s", s.listener.logs())
		}
	case "stop":
		ts.Check(s.listener.stop())
	}
}

// binaryOf returns the program that a script runs.
func binaryOf(ts *testscript.TestScript) string {
	for _, dir := range filepath.SplitList(ts.Getenv("PATH")) {
		path := filepath.Join(dir, "fireonce")
		if _, err := os.Stat(path); err == nil {
			return path
		}
	}
	ts.Fatalf("no fireonce in PATH")
	return ""
}

// environment returns the variables of a script that its processes get.
func environment(ts *testscript.TestScript) (env []string) {
	for _, name := range scriptVars {
		if value := ts.Getenv(name); value != "" {
			env = append(env, name+"="+value)
		}
	}
	return env
}
