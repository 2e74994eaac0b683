package node

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"strings"

	"github.com/fireonce/fireonce/internal/redact"
	"github.com/fireonce/fireonce/store"
	"github.com/fireonce/fireonce/store/postgres"
	"github.com/fireonce/fireonce/store/sqlite"

	"github.com/fireonce/fireonce/cmd/fireonce/internal/exit"
)

// Database is a parsed --database: which engine, and what it opens.
type Database struct {
	// path is SQLite's file; url is PostgreSQL's, with its password.
	path, url string
	// synchronousStandby is Config.SynchronousStandby.
	synchronousStandby bool
	// stateDir is Config.StateDir; empty: no folder. SQLite uses its lock file in any case.
	stateDir string
	// noteFailed is called when writes there fail, and when they work again.
	noteFailed func(error)
	// namespace is for a database that has none yet; empty: a new one.
	namespace string
	// clock has the options for a clock that changes.
	clock store.ClockOptions
}

// ParseDatabase reads "sqlite:PATH" or "postgres://…".
func ParseDatabase(text string) (Database, error) {
	scheme, path, _ := strings.Cut(text, ":")
	switch {
	case scheme == "postgres" || scheme == "postgresql":
		return Database{url: text}, nil
	case scheme != "sqlite" || path == "":
		// The text may hold a password.
		return Database{}, exit.Usagef("--database must be sqlite:PATH or postgres://…")
	case path == ":memory:" || strings.HasPrefix(path, "file:") || strings.ContainsAny(path, "?#"):
		return Database{}, exit.Usagef("--database %q: must be sqlite:PATH, with the plain path of a file", text)
	default:
		return Database{path: path}, nil
	}
}

// String names the database without its password.
func (d Database) String() string {
	if d.url == "" {
		return "sqlite:" + d.path
	}
	u, err := url.Parse(d.url)
	if err != nil {
		return "postgres://…"
	}
	return (&url.URL{Scheme: "postgres", Host: u.Host, Path: u.Path}).String()
}

// GoString is String.
func (d Database) GoString() string { return d.String() }

// Format is String, whatever the verb.
func (d Database) Format(s fmt.State, _ rune) { redact.Format(s, d.String()) }

// LogValue is String.
func (d Database) LogValue() slog.Value { return slog.StringValue(d.String()) }

// hasPassword reports whether the URL carries a password.
func (d Database) hasPassword() bool {
	u, err := url.Parse(d.url)
	if err != nil {
		return true // the driver may read what we cannot: a false warning costs less than a missing one
	}
	_, set := u.User.Password()
	return set || u.Query().Has("password")
}

// keys returns where the sealing keys are: in the environment, or in a file. Servers that share a
// database must share the keys, so PostgreSQL has no default.
func (d Database) keys(list, file string) (keySource, error) {
	switch {
	case list != "":
		return keySource{list: list}, nil
	case file != "":
		return keySource{file: file}, nil
	case d.url != "":
		return keySource{}, exit.Usagef("--database postgres://… needs --key-file: the same file, or a copy of it, on every server; or %s", keysVariable)
	default:
		// Beside the file itself, so that each of its names finds the same keys.
		path, err := sqlite.Resolve(d.path)
		if err != nil {
			return keySource{}, fmt.Errorf("--database %s: %w", d, err)
		}
		return keySource{file: path + ".key"}, nil
	}
}

// open opens it for this process.
func (d Database) open(ctx context.Context, migrate bool) (store.Store, error) {
	if d.url != "" {
		// The error names the operation already.
		s, err := postgres.Open(ctx, postgres.Options{
			URL: d.url, Migrate: migrate, SynchronousStandby: d.synchronousStandby, Clock: d.clock,
			StateDir: d.stateDir, NoteFailed: d.noteFailed, Namespace: d.namespace,
		})
		if err != nil {
			return nil, err
		}
		return s, nil
	}
	s, err := sqlite.Open(ctx, sqlite.Options{Path: d.path, Migrate: migrate, StateDir: d.stateDir, NoteFailed: d.noteFailed, Clock: d.clock, Namespace: d.namespace})
	if err != nil {
		return nil, fmt.Errorf("open the database: %w", err)
	}
	return s, nil
}

// lost returns a channel that delivers an error when the database is lost to this process, and must
// be opened again; nil: that does not happen.
func lost(s store.Store) <-chan error {
	if s, ok := s.(interface{ Lost() <-chan error }); ok {
		return s.Lost()
	}
	return nil
}

// stopFirst adds the remedy to the error of an SQLite file that is in use.
func stopFirst(err error) error {
	if errors.Is(err, sqlite.ErrLocked) {
		return fmt.Errorf("%w: stop that one first, or name another --database", err)
	}
	return err
}

// exists fails when there is no database yet, which opening would create.
func (d Database) exists() error {
	if d.url != "" {
		return nil
	}
	if _, err := os.Stat(d.path); err != nil {
		return exit.Usagef("no database: %w", err)
	}
	return nil
}

// migrate brings the schema up to date and returns its version.
func (d Database) migrate(ctx context.Context) (int64, error) {
	if d.url != "" {
		if err := postgres.Migrate(ctx, d.url); err != nil {
			return 0, err
		}
		return postgres.SchemaVersion()
	}
	if err := sqlite.Migrate(ctx, d.path); err != nil {
		return 0, err
	}
	return sqlite.SchemaVersion()
}
