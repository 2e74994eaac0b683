package vault

import (
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Rules of this file: a key file has one line for each key, "fireonce-key-1
// BASE64"; the first one seals. An existing file is only replaced as a whole, and a
// key leaves it only by RemoveKey. No file is used while users other than its owner
// may read it.

const (
	keyFileVersion = "fireonce-key-1"
	// maxKeyFile bounds what is read of a file with unknown contents.
	maxKeyFile = 4 << 10
)

// ErrKeyFile is returned for a file that is not a key file of a known version.
var ErrKeyFile = errors.New("not a fireonce key file")

// ErrKeyList is returned for a list of keys, for example from the environment, that
// cannot be parsed.
var ErrKeyList = errors.New("not a list of fireonce keys")

// GenerateKey returns the line of a new key, without the line's end.
func GenerateKey() (string, error) {
	key, err := random(keySize)
	if err != nil {
		return "", err
	}
	return keyFileVersion + " " + base64.StdEncoding.EncodeToString(key), nil
}

// ParseKeys returns the vault of a list of keys, separated by commas. Each is the line
// of a key file or only its second word. It fails with ErrKeyList.
func ParseKeys(list string) (*Vault, error) {
	var lines []string
	for part := range strings.SplitSeq(list, ",") {
		part = strings.TrimSpace(part)
		if !strings.Contains(part, " ") {
			part = keyFileVersion + " " + part
		}
		lines = append(lines, part)
	}
	v, err := fromLines(lines)
	if err != nil {
		// The cause speaks of files, which does not fit here.
		return nil, fmt.Errorf("%w: 32 bytes in base64 each, every key once, at most %d", ErrKeyList, maxKeys)
	}
	return v, nil
}

// LoadOrCreateKeyFile returns the vault of a key file. It creates the file, with a new
// key, if there is none. Losing the file loses every credential.
func LoadOrCreateKeyFile(path string) (*Vault, error) {
	v, err := LoadKeyFile(path)
	if !errors.Is(err, fs.ErrNotExist) {
		return v, err
	}
	line, err := GenerateKey()
	if err != nil {
		return nil, err
	}
	if err := createKeyFile(path, line); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, fmt.Errorf("create key file: %w", err)
	}
	// Another process may have created the file first: its contents count.
	return LoadKeyFile(path)
}

// LoadKeyFile returns the vault of a key file. It fails with fs.ErrNotExist,
// ErrKeyFile or ErrFileMode.
func LoadKeyFile(path string) (*Vault, error) {
	v, _, err := readKeyFile(path)
	return v, err
}

// AddKey adds a new key to a key file, and creates the file if there is none. The key
// comes first, so that it seals from the next start of a server on, or last, so that it
// only opens. It returns the vault of the new file. Only one caller at a time may call it.
func AddKey(path string, first bool) (*Vault, error) {
	_, lines, err := readKeyFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return LoadOrCreateKeyFile(path)
	}
	if err != nil {
		return nil, err
	}
	line, err := GenerateKey()
	if err != nil {
		return nil, err
	}
	at := len(lines)
	if first {
		at = 0
	}
	return replaceKeyFile(path, slices.Insert(lines, at, line))
}

// UseKey makes a key of a key file its first, so that it seals from the next start of a
// server on. It fails with ErrKeyID if the file does not have the key. Only one caller at
// a time may call it.
func UseKey(path, id string) (*Vault, error) {
	v, lines, err := readKeyFile(path)
	if err != nil {
		return nil, err
	}
	at := slices.Index(v.KeyIDs(), id)
	if at < 0 {
		return nil, fmt.Errorf("key file %s has no key %s: %w", path, id, ErrKeyID)
	}
	line := lines[at]
	return replaceKeyFile(path, slices.Insert(slices.Delete(lines, at, at+1), 0, line))
}

// RemoveKey removes a key from a key file, but not the last one. Secrets that the key has
// sealed no longer open. Only one caller at a time may call it.
func RemoveKey(path, id string) (*Vault, error) {
	v, lines, err := readKeyFile(path)
	if err != nil {
		return nil, err
	}
	at := slices.Index(v.KeyIDs(), id)
	switch {
	case at < 0:
		return nil, fmt.Errorf("key file %s has no key %s: %w", path, id, ErrKeyID)
	case len(lines) == 1:
		return nil, fmt.Errorf("key file %s has no other key", path)
	}
	return replaceKeyFile(path, slices.Delete(lines, at, at+1))
}

func readKeyFile(path string) (_ *Vault, lines []string, err error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, nil, fmt.Errorf("key file: %w", err)
	}
	defer func() { _ = f.Close() }() // it was only read
	info, err := f.Stat()
	if err != nil {
		return nil, nil, fmt.Errorf("key file: %w", err)
	}
	if !info.Mode().IsRegular() || info.Size() > maxKeyFile {
		return nil, nil, fmt.Errorf("key file %s: %w", path, ErrKeyFile)
	}
	if err := OwnerOnly(info); err != nil {
		return nil, nil, fmt.Errorf("key file %s: %w", path, err)
	}
	text := make([]byte, info.Size())
	if _, err := f.ReadAt(text, 0); err != nil {
		return nil, nil, fmt.Errorf("key file: %w", err)
	}
	body, ok := strings.CutSuffix(string(text), "\n")
	if !ok {
		return nil, nil, fmt.Errorf("key file %s: %w: it does not end with its line", path, ErrKeyFile)
	}
	lines = strings.Split(body, "\n")
	v, err := fromLines(lines)
	if err != nil {
		return nil, nil, fmt.Errorf("key file %s: %w", path, err)
	}
	return v, lines, nil
}

// fromLines parses the lines of a key file. Its errors do not quote them.
func fromLines(lines []string) (*Vault, error) {
	var keys [][]byte
	for _, line := range lines {
		version, encoded, ok := strings.Cut(line, " ")
		if !ok || version != keyFileVersion {
			return nil, ErrKeyFile
		}
		key, err := base64.StdEncoding.Strict().DecodeString(encoded)
		if err != nil || len(key) != keySize {
			return nil, fmt.Errorf("%w: a key is damaged", ErrKeyFile)
		}
		keys = append(keys, key)
	}
	v, err := New(keys[0], keys[1:]...)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrKeyFile, err)
	}
	return v, nil
}

// createKeyFile writes the whole file under another name and then links it to its own
// name, so that no process reads half a key, and an existing file stays.
func createKeyFile(path, line string) error {
	return writeKeyFile(path, []string{line}, os.Link)
}

// replaceKeyFile replaces the existing file as a whole.
func replaceKeyFile(path string, lines []string) (*Vault, error) {
	v, err := fromLines(lines) // only a file that can be parsed is written
	if err != nil {
		return nil, err
	}
	// The target of a link is replaced, not the link.
	target, err := filepath.EvalSymlinks(path)
	if err != nil {
		return nil, fmt.Errorf("key file: %w", err)
	}
	place := func(from, to string) error {
		// A file that root replaces must stay readable for the server.
		if err := giveOwner(from, to); err != nil {
			return err
		}
		return os.Rename(from, to)
	}
	if err := writeKeyFile(target, lines, place); err != nil {
		return nil, fmt.Errorf("write key file: %w", err)
	}
	return v, nil
}

func writeKeyFile(path string, lines []string, place func(from, to string) error) (err error) {
	// A temporary file is opened with O_EXCL and for its owner only.
	f, err := os.CreateTemp(filepath.Dir(path), ".fireonce-key-*")
	if err != nil {
		return err
	}
	defer func() {
		if rerr := os.Remove(f.Name()); rerr != nil && !errors.Is(rerr, fs.ErrNotExist) {
			err = errors.Join(err, rerr)
		}
	}()
	_, err = f.WriteString(strings.Join(lines, "\n") + "\n")
	if err == nil {
		err = f.Sync()
	}
	if err := errors.Join(err, f.Close()); err != nil {
		return err
	}
	if err := place(f.Name(), path); err != nil {
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
