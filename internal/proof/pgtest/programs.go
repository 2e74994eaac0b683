//go:build unix

package pgtest

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// needed are the programs that a folder must have. The script .ci/need-postgres
// looks for them in the same places.
var needed = []string{"initdb", "postgres", "pg_ctl", "pg_basebackup", "pg_dump", "pg_restore", "psql"}

// usual are the places where packages put the programs of one version.
var usual = []string{
	"/usr/lib/postgresql/*/bin",         // Debian, Ubuntu
	"/usr/pgsql-*/bin",                  // Fedora, Red Hat: packages of postgresql.org
	"/opt/homebrew/opt/postgresql*/bin", // macOS
	"/usr/local/opt/postgresql*/bin",
	"/usr/local/pgsql/bin", // built from source
	"/usr/libexec/postgresql*",
}

// programs finds the folder with PostgreSQL's programs: FIREONCE_PG_BIN alone if
// it is set; else that of the `postgres` on PATH; else the newest in the usual
// places.
var programs = sync.OnceValues(func() (string, error) {
	if dir := os.Getenv("FIREONCE_PG_BIN"); dir != "" {
		if missing := missingIn(dir); missing != "" {
			return "", fmt.Errorf("pgtest: FIREONCE_PG_BIN=%s has no program %s", dir, missing)
		}
		return filepath.Abs(dir)
	}
	var dirs []string
	if path, err := exec.LookPath("postgres"); err == nil {
		if path, err = filepath.EvalSymlinks(path); err == nil {
			dirs = append(dirs, filepath.Dir(path))
		}
	}
	for _, pattern := range usual {
		found, err := filepath.Glob(pattern)
		if err != nil {
			return "", fmt.Errorf("pgtest: %w", err)
		}
		slices.SortFunc(found, func(a, b string) int { return versionIn(b) - versionIn(a) })
		dirs = append(dirs, found...)
	}
	for _, dir := range dirs {
		if missingIn(dir) == "" {
			return filepath.Abs(dir)
		}
	}
	return "", errors.New("pgtest: these tests need PostgreSQL's server programs, and there are none.\n" +
		"  `make test` installs them on Debian when it runs as root. By hand: apt-get install postgresql\n" +
		"  (Debian, Ubuntu), dnf install postgresql-server postgresql (Fedora), brew install postgresql (macOS);\n" +
		"  or set FIREONCE_PG_BIN to the folder with initdb, postgres and psql")
})

func missingIn(dir string) string {
	for _, name := range needed {
		if info, err := os.Stat(filepath.Join(dir, name)); err != nil || info.IsDir() { //nolint:gosec // the environment of the tests names the folder
			return name
		}
	}
	return ""
}

// versionIn returns the first number in a path: its PostgreSQL's major version.
func versionIn(path string) int {
	digits := strings.TrimLeftFunc(path, func(r rune) bool { return r < '0' || r > '9' })
	if end := strings.IndexFunc(digits, func(r rune) bool { return r < '0' || r > '9' }); end >= 0 {
		digits = digits[:end]
	}
	n, err := strconv.Atoi(digits)
	if err != nil {
		return 0
	}
	return n
}
