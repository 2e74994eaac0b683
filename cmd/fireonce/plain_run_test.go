//go:build !failpoints

package main

// crashRun says that this run is for the crash tests alone.
const crashRun = false
