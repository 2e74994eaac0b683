//go:build profile && unix

package main

import (
	"fmt"
	"os"
	"os/signal"
	"runtime/pprof"
	"syscall"
)

// A build with the tag "profile" writes CPU profiles of itself, for benchmarks: from
// one SIGUSR1 to the next, into the file that FIREONCE_CPU_PROFILE names. The file
// appears when it is complete. No other build does this.
func init() {
	path := os.Getenv("FIREONCE_CPU_PROFILE")
	if path == "" {
		return
	}
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGUSR1)
	go func() {
		for range signals {
			if err := profile(path, signals); err != nil {
				fmt.Fprintln(os.Stderr, "profile:", err)
			}
		}
	}()
}

func profile(path string, until <-chan os.Signal) error {
	part := path + ".part"
	f, err := os.Create(part) //nolint:gosec // the benchmark's caller names it
	if err != nil {
		return err
	}
	if err := pprof.StartCPUProfile(f); err != nil {
		return err
	}
	<-until
	pprof.StopCPUProfile()
	if err := f.Close(); err != nil {
		return err
	}
	return os.Rename(part, path) //nolint:gosec // the same
}
