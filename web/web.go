// Package web has the dashboard: its sources in TypeScript, and what they are built to. `make web`
// builds it; `make web-check` proves that the two belong together. Go needs the built files alone.
package web

import (
	"embed"
	"io/fs"
)

//go:embed all:dist
var dist embed.FS

// Files returns the built files, with index.html at the root.
func Files() (fs.FS, error) { return fs.Sub(dist, "dist") }
