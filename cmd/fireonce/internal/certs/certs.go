// Package certs reads certificates from files and builds TLS configurations from them. It
// reads the files again when they change, so that a renewed certificate needs no restart.
package certs

import (
	"bytes"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fireonce/fireonce/internal/textfile"
)

// Rules of this file: files are checked when a handshake needs them, at most once a second,
// by one handshake at a time; other handshakes use the present value. Files that cannot be
// used do not replace it.

const (
	// checkEvery is the time between two checks of the files.
	checkEvery = time.Second
	// maxFile bounds each file, in bytes.
	maxFile = 1 << 20
)

// Pair names the PEM files of a certificate with its chain, and of its private key. They
// may be the same file.
type Pair struct{ Cert, Key string }

// IsZero reports whether no file is named.
func (p Pair) IsZero() bool { return p == Pair{} }

// Check fails if only one of the two is named.
func (p Pair) Check() error {
	if (p.Cert == "") != (p.Key == "") {
		return errors.New("a certificate and its key go together")
	}
	return nil
}

// Options configure values that follow their files.
type Options struct {
	// Log gets a line when files were read again, and one when their contents cannot be
	// used. Required.
	Log *slog.Logger
	// Now is the clock; nil: time.Now.
	Now func() time.Time
}

func (o Options) withDefaults() Options {
	if o.Now == nil {
		o.Now = time.Now
	}
	return o
}

// followed is a value that is read from files, and read again when they change.
type followed[T any] struct {
	Options
	what  string // in messages
	files []string
	// make returns the value of the files' contents. before is the value in use; nil at the
	// start.
	make  func(contents [][]byte, before *T) (*T, error)
	value atomic.Pointer[T]

	mu     sync.Mutex
	looked time.Time
	digest [sha256.Size]byte
	failed string // the last error that was logged; empty: the files can be used
}

func follow[T any](o Options, what string, files []string, build func([][]byte, *T) (*T, error)) (*followed[T], error) {
	f := &followed[T]{Options: o.withDefaults(), what: what, files: files, make: build, looked: o.withDefaults().Now()}
	contents, digest, err := f.read()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", what, err)
	}
	v, err := build(contents, nil)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", what, err)
	}
	f.digest = digest
	f.value.Store(v)
	return f, nil
}

// current returns the value, after a check of the files if one is due.
func (f *followed[T]) current() *T {
	if f.mu.TryLock() {
		if since := f.Now().Sub(f.looked); since < 0 || since >= checkEvery {
			_, _ = f.check()
		}
		f.mu.Unlock()
	}
	return f.value.Load()
}

// reload checks the files now. It reports whether they have changed, and fails if their
// contents cannot be used.
func (f *followed[T]) reload() (bool, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.check()
}

// check reads the files and replaces the value if they have changed. The caller holds the lock.
func (f *followed[T]) check() (changed bool, err error) {
	f.looked = f.Now()
	contents, digest, err := f.read()
	if err == nil && digest == f.digest {
		f.failed = ""
		return false, nil
	}
	var v *T
	if err == nil {
		v, err = f.make(contents, f.value.Load())
	}
	if err != nil {
		err = fmt.Errorf("%s: %w", f.what, err)
		if err.Error() != f.failed {
			f.failed = err.Error()
			f.Log.Error("files for TLS have changed and cannot be used: what was read before stays in use", "err", err,
				"then", "put the right files in place; they are looked at again by themselves")
		}
		return false, err
	}
	f.value.Store(v)
	f.digest, f.failed = digest, ""
	f.Log.Info("files for TLS were read again", "what", f.what)
	return true, nil
}

// read reads all files.
func (f *followed[T]) read() (contents [][]byte, digest [sha256.Size]byte, err error) {
	sum := sha256.New()
	for _, name := range f.files {
		data, err := readFile(name)
		if err != nil {
			return nil, digest, err
		}
		one := sha256.Sum256(data)
		sum.Write(one[:])
		contents = append(contents, data)
	}
	return contents, [sha256.Size]byte(sum.Sum(nil)), nil
}

func readFile(name string) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	data, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err == nil && len(data) > maxFile {
		err = fmt.Errorf("%s has more than %d bytes", name, maxFile)
	}
	return bytes.TrimPrefix(data, []byte(textfile.Mark)), err // PEM would overlook its first line
}

// FollowPair reads a certificate and follows its files. It fails if they cannot be used. It
// does not fail for an expired certificate: the caller reports that at the start, and later
// checks do so.
func FollowPair(p Pair, o Options) (*Certificate, error) {
	now := o.withDefaults().Now
	f, err := follow(o, "certificate "+p.Cert+" with key "+p.Key, []string{p.Cert, p.Key}, func(c [][]byte, before *tls.Certificate) (*tls.Certificate, error) {
		pair, err := tls.X509KeyPair(c[0], c[1])
		if err != nil {
			return nil, errors.New(strings.TrimPrefix(err.Error(), "tls: "))
		}
		if before != nil && Validity(before.Leaf, now()) == nil {
			if err := Validity(pair.Leaf, now()); err != nil {
				return nil, err
			}
		}
		return &pair, nil
	})
	if err != nil {
		return nil, err
	}
	return &Certificate{f}, nil
}

// Certificate is a certificate with its key that follows its files. It is safe for concurrent
// use.
type Certificate struct{ files *followed[tls.Certificate] }

// Current returns the certificate.
func (c *Certificate) Current() *tls.Certificate { return c.files.current() }

// Reload checks the files now. It fails if they have changed and cannot be used; then the
// earlier certificate stays in use.
func (c *Certificate) Reload() error {
	_, err := c.files.reload()
	return err
}

// Validity fails if a certificate has expired or is not valid yet.
func Validity(leaf *x509.Certificate, now time.Time) error {
	switch {
	case now.After(leaf.NotAfter):
		return fmt.Errorf("the certificate for %s expired on %s", Names(leaf), leaf.NotAfter.UTC().Format(time.RFC3339))
	case now.Before(leaf.NotBefore):
		return fmt.Errorf("the certificate for %s is not valid before %s", Names(leaf), leaf.NotBefore.UTC().Format(time.RFC3339))
	}
	return nil
}

// Names returns the hosts of a certificate as a text.
func Names(leaf *x509.Certificate) string {
	names := append([]string(nil), leaf.DNSNames...)
	for _, ip := range leaf.IPAddresses {
		names = append(names, ip.String())
	}
	if len(names) == 0 {
		names = append(names, leaf.Subject.String())
	}
	return strings.Join(names, ", ")
}

// pool parses certificates of authorities.
func pool(data []byte) (*x509.CertPool, error) {
	p, n := x509.NewCertPool(), 0
	for rest := bytes.TrimSpace(data); len(rest) > 0; {
		block, after := pem.Decode(rest)
		if block == nil {
			break
		}
		rest = bytes.TrimSpace(after)
		if block.Type != "CERTIFICATE" {
			continue
		}
		c, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, errors.New(strings.TrimPrefix(err.Error(), "x509: "))
		}
		p.AddCert(c)
		n++
	}
	if n == 0 {
		return nil, errors.New("no certificate in PEM form")
	}
	return p, nil
}

// ReadPool reads the certificates of authorities once.
func ReadPool(file string) (*x509.CertPool, error) {
	data, err := readFile(file)
	if err != nil {
		return nil, err
	}
	p, err := pool(data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return p, nil
}
