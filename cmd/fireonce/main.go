// Fireonce is the scheduling service and its command-line client in one binary.
//
// Exit codes: 0 OK · 1 an error; a watched job that ended without success · 2
// wrong usage, or a request that the server refuses as invalid · 3 conflict:
// another request has the key, the state does not allow it, the etag is old · 4
// not found · 5 the server cannot be reached; the call may be repeated unchanged ·
// 6 access denied: no API key, a wrong one, or one without the scope ·
// 128 plus the signal's number: a second signal during a shutdown.
package main

import (
	"context"
	"io"
	"os"
	"runtime/debug"
	// Time zones are needed on systems without a zone database too.
	_ "time/tzdata"

	// Root certificates are needed on systems without them, such as an image that has only
	// this program.
	_ "golang.org/x/crypto/x509roots/fallback"
)

func main() {
	p := Program{Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr, Version: buildVersion()}
	os.Exit(p.Run(context.Background(), os.Args))
}

// Program is one run of the binary, with everything that it uses except the
// environment variables that its help names.
type Program struct {
	Stdin          io.Reader
	Stdout, Stderr io.Writer
	// Version is the version that the binary reports.
	Version string
}

// buildVersion returns the module's version as the go command stamped it.
func buildVersion() string {
	info, ok := debug.ReadBuildInfo()
	if !ok || info.Main.Version == "" || info.Main.Version == "(devel)" {
		return "dev"
	}
	return info.Main.Version
}
