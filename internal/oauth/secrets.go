package oauth

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/fireonce/fireonce/internal/textfile"
	"github.com/fireonce/fireonce/internal/vault"
)

// source is where an operator's file was read.
type source struct {
	dir string
	env func(string) (string, bool)
	// mode is why the file must not hold a secret; nil: it may.
	mode error
}

// withSecret reads the secret from its file or variable.
func (a App) withSecret(from source) (App, error) {
	given := 0
	for _, s := range []string{a.ClientSecret, a.ClientSecretFile, a.ClientSecretEnv} {
		if s != "" {
			given++
		}
	}
	switch {
	case given > 1:
		return a, errors.New("the secret is given more than once")
	case a.ClientSecret != "" && from.mode != nil:
		return a, fmt.Errorf("client_secret: %w", from.mode)
	case a.ClientSecretFile != "":
		path := a.ClientSecretFile
		if !filepath.IsAbs(path) {
			path = filepath.Join(from.dir, path)
		}
		secret, err := readSecret(path)
		if err != nil {
			return a, fmt.Errorf("client_secret_file: %w", err)
		}
		a.ClientSecret = secret
	case a.ClientSecretEnv != "":
		secret, set := from.env(a.ClientSecretEnv)
		if !set || secret == "" {
			return a, fmt.Errorf("client_secret_env: %s is not set", a.ClientSecretEnv)
		}
		a.ClientSecret = secret
	}
	return a, nil
}

// readSecret reads a file that holds one secret.
func readSecret(path string) (string, error) {
	text, mode, err := readFile(path)
	switch {
	case err != nil:
		return "", err
	case mode != nil:
		return "", fmt.Errorf("%s: %w", path, mode)
	}
	if text, err = textfile.Plain(text); err != nil {
		return "", fmt.Errorf("%s: %w", path, err)
	}
	return strings.TrimRight(string(text), "\r\n"), nil
}

// readFile reads a file, but no more than a byte above maxFile. mode is why the file must not hold
// a secret; nil: it may.
func readFile(path string) (text []byte, mode, err error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, nil, err
	}
	defer func() { _ = f.Close() }() // it was only read
	info, err := f.Stat()
	if err != nil {
		return nil, nil, err
	}
	text, err = io.ReadAll(io.LimitReader(f, maxFile+1))
	return text, vault.OwnerOnly(info), err
}
