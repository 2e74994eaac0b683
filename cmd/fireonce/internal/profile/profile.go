// Package profile stores the servers to which a user has logged in, and the API keys for
// them, in one file that other users of the machine cannot read.
package profile

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/fireonce/fireonce/internal/textfile"
)

const (
	// Default is the profile's name if none is given.
	Default = "default"
	// maxFile bounds the file, in bytes.
	maxFile = 1 << 20
)

// Name matches the names that a profile may have.
var Name = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$`)

// ErrReadable: other users can read the file.
var ErrReadable = errors.New("other users can read it")

// Profile is one server and the settings for calls to it.
type Profile struct {
	// Server is its URL.
	Server string `json:"server"`
	// APIKey is for that server only; empty: none.
	APIKey string `json:"apiKey,omitempty"`
	// CAFile, ClientCert and ClientKey are absolute paths, as the flags of these names.
	CAFile     string `json:"caFile,omitempty"`
	ClientCert string `json:"clientCert,omitempty"`
	ClientKey  string `json:"clientKey,omitempty"`
}

// File is the file's content.
type File struct {
	// Current is the profile that is used if no other one is named; empty: none.
	Current  string             `json:"current,omitempty"`
	Profiles map[string]Profile `json:"profiles"`
}

// Path returns the file's path: fireonce/config.json in the user's directory for configuration.
func Path() (string, error) {
	dir, err := os.UserConfigDir()
	if err != nil {
		return "", fmt.Errorf("no folder for profiles: %w", err)
	}
	return filepath.Join(dir, "fireonce", "config.json"), nil
}

// Load reads the file. Without the file, or a directory for it, there are no profiles. It
// fails with ErrReadable if users other than the file's owner may read or write it.
func Load() (*File, error) {
	none := &File{Profiles: make(map[string]Profile)}
	path, err := Path()
	if err != nil {
		return none, nil // a container has no home: then there are no profiles
	}
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return none, nil
	}
	if err != nil {
		return nil, fmt.Errorf("profiles: %w", err)
	}
	defer func() { _ = f.Close() }()
	info, err := f.Stat()
	if err != nil {
		return nil, fmt.Errorf("profiles: %w", err)
	}
	if mode := info.Mode().Perm(); mode&0o077 != 0 {
		return nil, fmt.Errorf("%s has API keys, and its mode is %#o: %w; run: chmod 600 %s", path, mode, ErrReadable, path)
	}
	raw, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err != nil || len(raw) > maxFile {
		return nil, fmt.Errorf("%s: %w", path, errors.Join(err, fmt.Errorf("it may have %d bytes", maxFile)))
	}
	out := new(File)
	// Strictly: saving the file would lose fields that this program does not know.
	if err := textfile.DecodeJSON(raw, out); err != nil {
		return nil, fmt.Errorf("%s is not a file of profiles that this version supports; repair or remove it: %w", path, err)
	}
	if out.Profiles == nil {
		out.Profiles = none.Profiles
	}
	return out, nil
}

// Update reads the file, changes it and saves it, unless change fails. Updates of several
// processes run one after the other, so that none is lost.
func Update(change func(*File) error) (err error) {
	unlock, err := lock()
	if err != nil {
		return fmt.Errorf("profiles: %w", err)
	}
	defer func() { err = errors.Join(err, unlock()) }()
	f, err := Load()
	if err != nil {
		return err
	}
	if err := change(f); err != nil {
		return err
	}
	return f.Save()
}

// Save replaces the file. Only its owner can read it.
func (f *File) Save() (err error) {
	path, err := Path()
	if err != nil {
		return err
	}
	if target, err := filepath.EvalSymlinks(path); err == nil {
		path = target // a link to the file stays a link
	}
	raw, err := json.MarshalIndent(f, "", "  ")
	if err != nil {
		return fmt.Errorf("profiles: %w", err)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return fmt.Errorf("profiles: %w", err)
	}
	part, err := os.CreateTemp(filepath.Dir(path), ".config-*.json") // mode 0600
	if err != nil {
		return fmt.Errorf("profiles: %w", err)
	}
	defer func() {
		if err != nil {
			_ = os.Remove(part.Name())
			err = fmt.Errorf("profiles: %w", err)
		}
	}()
	_, err = part.Write(append(raw, '\n'))
	if err = errors.Join(err, part.Sync(), part.Close()); err != nil {
		return err
	}
	return os.Rename(part.Name(), path)
}

// For returns the profile with a name; empty: the current one. found is false if no profile
// is current, or if none has the name.
func (f *File) For(name string) (used string, p Profile, found bool) {
	name = cmp.Or(name, f.Current)
	p, found = f.Profiles[name]
	return name, p, found
}

// SameServer reports whether two URLs name the same server, so that a key for one may be sent
// to the other.
func SameServer(a, b string) bool {
	x, okX := address(a)
	y, okY := address(b)
	return okX && okY && x == y
}

// address returns the parts of a URL that identify the server: scheme, host, port and path.
func address(text string) (string, bool) {
	u, err := url.Parse(text)
	if err != nil || u.Host == "" {
		return "", false
	}
	port := cmp.Or(u.Port(), map[string]string{"http": "80", "https": "443"}[u.Scheme])
	host := strings.TrimSuffix(strings.ToLower(u.Hostname()), ".")
	return u.Scheme + "://" + net.JoinHostPort(host, port) + strings.TrimRight(u.EscapedPath(), "/"), true
}
