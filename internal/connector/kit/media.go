package kit

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"sync"
	"time"

	"github.com/fireonce/fireonce/internal/connector"
	"github.com/fireonce/fireonce/internal/connector/transport"
	"github.com/fireonce/fireonce/internal/job"
)

// Limits and times of media.
const (
	// MaxMedia bounds one file, in bytes, unless MediaConfig sets another bound.
	MaxMedia = 512 << 20
	// MaxAssets bounds how many files are held concurrently, MaxSpool how many bytes of
	// them lie on disk.
	MaxAssets = 256
	MaxSpool  = 4 << 30
	// MediaTimeout bounds one fetch, ProbeTimeout one probe.
	MediaTimeout = 5 * time.Minute
	ProbeTimeout = 2 * time.Second
	// SlowMedia bytes are the least that each SlowMediaAfter of a fetch must bring, 16 KiB a
	// second: a fetch has a sender of the job that it is for.
	SlowMediaAfter = 10 * time.Second
	SlowMedia      = 160 << 10
	// MaxMediaRedirects is how many redirects a fetch follows. It is read-only, so
	// unlike a send it may.
	MaxMediaRedirects = 5

	// inMemory is how much of a file is kept in memory before it goes to disk.
	inMemory = 1 << 20
	// spoolStep is the size of one reservation of disk space, in bytes.
	spoolStep = 1 << 20
	// mediaBusy is how long a job waits for other jobs' files to be let go.
	mediaBusy = 5 * time.Second
)

// MediaConfig makes a Media. The zero value works: public addresses only, the
// system's roots and temporary directory.
type MediaConfig struct {
	// Egress decides what may be dialled; nil allows public addresses only.
	Egress *transport.Egress
	// RootCAs replaces the system's roots; for tests and private authorities.
	RootCAs *x509.CertPool
	// Version is what the user agent has after "Fireonce/"; empty means "dev".
	Version string
	// HTTPSOnly refuses http URLs, also as the target of a redirect.
	HTTPSOnly bool
	// Dir is where files above 1 MiB lie while they are needed; empty: os.TempDir.
	Dir string
	// MaxBytes replaces MaxMedia, MaxSpool and MaxAssets the constants of that name;
	// zero keeps them.
	MaxBytes, MaxSpool int64
	MaxAssets          int
	// Timeout replaces MediaTimeout; zero keeps it.
	Timeout time.Duration
}

// Media reads the files that payloads refer to. It only reads: it sends no
// cookie, uses no proxy and ignores the environment. It is safe for concurrent use.
type Media struct {
	egress    *transport.Egress
	client    *http.Client
	agent     string
	httpsOnly bool
	dir       string
	most      int64
	timeout   time.Duration

	mu     sync.Mutex
	assets int   // places left
	spool  int64 // bytes left
}

// NewMedia makes a Media.
func NewMedia(c MediaConfig) *Media {
	if c.Egress == nil {
		c.Egress = transport.NewEgress()
	}
	m := &Media{
		egress: c.Egress,
		agent:  "Fireonce/" + cmp.Or(c.Version, "dev"), httpsOnly: c.HTTPSOnly, dir: c.Dir,
		timeout: cmp.Or(c.Timeout, MediaTimeout), assets: cmp.Or(c.MaxAssets, MaxAssets), spool: cmp.Or(c.MaxSpool, MaxSpool),
	}
	m.most = min(cmp.Or(c.MaxBytes, MaxMedia), m.spool)
	dialer := net.Dialer{ControlContext: c.Egress.Control, Timeout: transport.ConnectTimeout}
	m.client = &http.Client{
		CheckRedirect: m.redirect,
		Transport: &http.Transport{
			DialContext:            dialer.DialContext,
			TLSClientConfig:        &tls.Config{RootCAs: c.RootCAs, MinVersion: tls.VersionTLS12},
			TLSHandshakeTimeout:    transport.ConnectTimeout,
			ResponseHeaderTimeout:  15 * time.Second,
			MaxResponseHeaderBytes: transport.MaxHead,
			DisableKeepAlives:      true,
			DisableCompression:     true,
		},
	}
	return m
}

// Asset is a file that was fetched whole. Close releases it.
type Asset struct {
	// Size is its length in bytes, never zero.
	Size int64
	// SHA256 is the digest of its bytes.
	SHA256 [sha256.Size]byte
	// Type is its media type without parameters, e.g. "video/mp4": that of the
	// payload, else that of its host, else what its first bytes look like.
	Type string

	content io.ReaderAt
	spooled *spooled
}

// Reader reads the file from its beginning. Readers do not disturb each other.
// None works after Close.
func (a *Asset) Reader() *io.SectionReader { return io.NewSectionReader(a.content, 0, a.Size) }

// Close releases the file. Safe to call twice.
func (a *Asset) Close() { a.spooled.leave() }

// spooled is one file that is held, and its share of the files and bytes that may be.
type spooled struct {
	media *Media
	once  sync.Once
	// written bytes are in bytes, or in file, for which reserved bytes of disk are taken.
	written, reserved int64
	bytes             bytes.Buffer
	file              *os.File
}

// errMediaFull is the error while other jobs' files take all the space.
var errMediaFull = errors.New("no space for another media file")

func (m *Media) enter() (*spooled, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.assets == 0 {
		return nil, busy(errMediaFull)
	}
	m.assets--
	return &spooled{media: m}, nil
}

// busy holds the job back at no cost: it is not its own fault.
func busy(err error) *connector.Refusal {
	return &connector.Refusal{Kind: job.FailHeld, RetryAfter: mediaBusy, Msg: "waits until other jobs' media files have been sent", Err: err}
}

func (r *spooled) leave() {
	r.once.Do(func() {
		if r.file != nil {
			_ = r.file.Close()
		}
		r.media.mu.Lock()
		defer r.media.mu.Unlock()
		r.media.assets++
		r.media.spool += r.reserved
	})
}

// Write keeps a part of the file. What is above inMemory goes to a file that has
// no name any more, so that nothing is left of it whatever becomes of the process.
func (r *spooled) Write(p []byte) (int, error) {
	if r.file == nil && r.written+int64(len(p)) > inMemory {
		if err := r.toDisk(); err != nil {
			return 0, err
		}
	}
	var n int
	var err error
	if r.file == nil {
		n, err = r.bytes.Write(p)
	} else if err = r.reserve(r.written + int64(len(p))); err == nil {
		n, err = r.file.Write(p)
	}
	r.written += int64(n)
	return n, err
}

func (r *spooled) toDisk() error {
	if err := r.reserve(r.written); err != nil {
		return err
	}
	f, err := os.CreateTemp(r.media.dir, "fireonce-media-*")
	if err != nil {
		return err
	}
	r.file = f // closed by leave
	if err := os.Remove(f.Name()); err != nil {
		return err
	}
	_, err = f.Write(r.bytes.Bytes())
	r.bytes = bytes.Buffer{}
	return err
}

// reserve makes sure that so many bytes may lie on disk.
func (r *spooled) reserve(total int64) error {
	if total <= r.reserved {
		return nil
	}
	step := max(total-r.reserved, spoolStep)
	r.media.mu.Lock()
	defer r.media.mu.Unlock()
	if r.media.spool < step {
		return errMediaFull
	}
	r.media.spool -= step
	r.reserved += step
	return nil
}

func (r *spooled) content() io.ReaderAt {
	if r.file != nil {
		return r.file
	}
	return bytes.NewReader(r.bytes.Bytes())
}
