//go:build !failpoints

package main

// crashRun reports whether this run has only the crash tests.
const crashRun = false
