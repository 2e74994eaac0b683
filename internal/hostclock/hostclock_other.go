//go:build !linux

package hostclock

import "time"

func boot() time.Duration { return time.Since(processStart) }

func bootID() string { return "" }

func synchronized() bool { return false }
