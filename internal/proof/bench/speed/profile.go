//go:build unix

package main

import (
	"errors"
	"os"
	"path/filepath"
	"runtime/pprof"
	"strings"
	"syscall"
	"time"
)

// Rules of this file: a profile is of what is measured and of nothing beside it.
// A server writes its own, between two signals, if it was built for that.

const (
	// profileTag builds a server that can be profiled, profileEnv names its file.
	profileTag = "profile"
	profileEnv = "FIREONCE_CPU_PROFILE"
	// profileWritten bounds the wait for a server's profile.
	profileWritten = 10 * time.Second
)

// tags are those that the program under test is built with.
func (h *environment) tags() []string {
	if h.profiles == "" {
		return nil
	}
	return []string{profileTag}
}

// profiled names the files for a task's profiles.
func (h *environment) profiled(t *task, c system) {
	if h.profiles == "" {
		return
	}
	name := filepath.Join(h.profiles, t.Run+"-"+strings.ReplaceAll(c.measure, "/", "-")+c.engine)
	t.Profile = name + ".pprof"
	if h.built {
		t.ServerProfile = name + "-server.pprof"
	}
}

// profile starts a processor profile, if there is a file for it.
func profile(path string) (stop func(), err error) {
	if path == "" {
		return func() {}, nil
	}
	f, err := os.Create(path)
	if err != nil {
		return nil, err
	}
	if err := pprof.StartCPUProfile(f); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return func() {
		pprof.StopCPUProfile()
		_ = f.Close() // a reader of the profile notices that it is cut short
	}, nil
}

// toggleServerProfile begins or ends a server's profile.
func (t task) toggleServerProfile(pid int) {
	if t.ServerProfile != "" {
		_ = syscall.Kill(pid, syscall.SIGUSR1) // a server that is gone fails elsewhere
	}
}

// endServerProfile waits until the profile is written: the server is killed soon.
func (t task) endServerProfile(pid int) {
	if t.ServerProfile == "" {
		return
	}
	t.toggleServerProfile(pid)
	for end := time.Now().Add(profileWritten); time.Now().Before(end); time.Sleep(glance) {
		if _, err := os.Stat(t.ServerProfile); err == nil {
			return
		}
	}
}
