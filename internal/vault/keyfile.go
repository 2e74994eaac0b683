package vault

import (
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// Rules of this file: a key file is one line, "fireonce-key-1 BASE64"; it is
// never overwritten, and it is not used while others than its owner may read it.

const (
	keyFileVersion = "fireonce-key-1"
	// maxKeyFile bounds what is read of a file that may be anything.
	maxKeyFile = 1 << 10
)

// ErrKeyFile says that a file is no key file of a version that is known.
var ErrKeyFile = errors.New("not a fireonce key file")

// ErrKeyFileMode says that others than its owner may read a key file.
var ErrKeyFileMode = errors.New("the key file is open to its group or to others: chmod 600 it")

// LoadOrCreateKeyFile gives the vault of a key file and creates the file, with
// a new key, when there is none. Losing the file loses every credential.
func LoadOrCreateKeyFile(path string) (*Vault, error) {
	v, err := LoadKeyFile(path)
	if !errors.Is(err, fs.ErrNotExist) {
		return v, err
	}
	if err := createKeyFile(path); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, fmt.Errorf("create key file: %w", err)
	}
	// Also after somebody else was faster: what counts is what the file says.
	return LoadKeyFile(path)
}

// LoadKeyFile gives the vault of a key file. It fails with fs.ErrNotExist,
// ErrKeyFile or ErrKeyFileMode.
func LoadKeyFile(path string) (*Vault, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("key file: %w", err)
	}
	defer func() { _ = f.Close() }() // it was only read
	info, err := f.Stat()
	if err != nil {
		return nil, fmt.Errorf("key file: %w", err)
	}
	if !info.Mode().IsRegular() || info.Size() > maxKeyFile {
		return nil, fmt.Errorf("key file %s: %w", path, ErrKeyFile)
	}
	if info.Mode().Perm()&0o077 != 0 {
		return nil, fmt.Errorf("key file %s: %w", path, ErrKeyFileMode)
	}
	text := make([]byte, info.Size())
	if _, err := f.ReadAt(text, 0); err != nil {
		return nil, fmt.Errorf("key file: %w", err)
	}
	key, err := parseKey(string(text))
	if err != nil {
		return nil, fmt.Errorf("key file %s: %w", path, err)
	}
	return New(key)
}

// parseKey reads the line. What it holds is in no error.
func parseKey(text string) ([]byte, error) {
	line, ok := strings.CutSuffix(text, "\n")
	if !ok {
		return nil, fmt.Errorf("%w: it does not end with its line", ErrKeyFile)
	}
	version, encoded, ok := strings.Cut(line, " ")
	if !ok || version != keyFileVersion {
		return nil, ErrKeyFile
	}
	key, err := base64.StdEncoding.Strict().DecodeString(encoded)
	if err != nil || len(key) != keySize {
		return nil, fmt.Errorf("%w: the key is damaged", ErrKeyFile)
	}
	return key, nil
}

// createKeyFile writes a whole file under another name and then gives it its
// own, so that nobody ever reads half a key, and a file that is there stays.
func createKeyFile(path string) (err error) {
	key := make([]byte, keySize)
	if _, err := rand.Read(key); err != nil {
		return err
	}
	// A temporary file is opened with O_EXCL and for its owner only.
	f, err := os.CreateTemp(filepath.Dir(path), ".fireonce-key-*")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.Remove(f.Name())) }()
	_, err = fmt.Fprintf(f, "%s %s\n", keyFileVersion, base64.StdEncoding.EncodeToString(key))
	if err == nil {
		err = f.Sync()
	}
	if err := errors.Join(err, f.Close()); err != nil {
		return err
	}
	if err := os.Link(f.Name(), path); err != nil {
		return err
	}
	return syncDir(filepath.Dir(path))
}

// syncDir makes a new name durable before anything is sealed under its key.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
