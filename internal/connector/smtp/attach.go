package smtp

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/base64"
	"fmt"
	"io"
	"mime"
	"net/url"
	"strings"
	"time"

	"github.com/fireonce/fireonce/internal/connector/kit"
	"github.com/fireonce/fireonce/internal/mailbox"
)

// Rules of this file: attachments are fetched before the relay is dialled, and held
// until the session is closed. They are written as they are read, in base64, whose
// lines never begin with a dot.

const (
	// MaxFiles bounds the attachments of one e-mail together, in bytes, before they are
	// encoded. Few relays take more.
	MaxFiles = 50 << 20
	// slowest is the least expected speed of a relay, in bytes a second.
	slowest = 128 << 10
	// lineText and lineFile are a line of base64, and what it holds, in bytes.
	lineText = 76
	lineFile = 57
	// nameChunk is how much of a file's name stands in one parameter (RFC 2231).
	nameChunk = 60
	// unknownType is the type of a file of which nothing is known.
	unknownType = "application/octet-stream"
)

// part is one attachment, fetched.
type part struct {
	head  []byte // boundary and headers
	asset *kit.Asset
}

// size is what the part has on the wire, in bytes.
func (p part) size() int64 {
	full, rest := p.asset.Size/lineFile, p.asset.Size%lineFile
	n := int64(len(p.head)) + full*(lineText+2)
	if rest > 0 {
		n += int64(base64.StdEncoding.EncodedLen(int(rest))) + 2
	}
	return n
}

// fetch reads the files of a message. It fails with *connector.Refusal.
func (c *Connector) fetch(ctx context.Context, m message) ([]part, error) {
	parts, left := make([]part, 0, len(m.files)), int64(MaxFiles)
	for _, f := range m.files {
		asset, err := c.cfg.Media.Fetch(ctx, f.Ref(), left)
		if err != nil {
			for _, p := range parts {
				p.asset.Close()
			}
			return nil, fmt.Errorf("fetch an attachment: %w", err)
		}
		parts = append(parts, part{head: m.partHead(f, asset.Type), asset: asset})
		left = max(left-asset.Size, 1) // zero would mean no limit
	}
	return parts, nil
}

// letGo releases the files. Safe to call twice.
func (s *session) letGo() {
	for _, p := range s.parts {
		p.asset.Close()
	}
}

// SendTime implements connector.Uploader.
func (s *session) SendTime() time.Duration {
	if len(s.parts) == 0 {
		return 0
	}
	return time.Duration(s.size()/slowest+10) * time.Second
}

// size is what the message has on the wire, in bytes.
func (s *session) size() int64 {
	n := s.message.size()
	for _, p := range s.parts {
		n += p.size()
	}
	if len(s.parts) > 0 {
		n += int64(len(s.message.lastBoundary()))
	}
	return n
}

func (m message) lastBoundary() string { return "--" + m.boundary(mixed) + "--\r\n" }

// partHead is what comes before an attachment's content. found is the type that its
// host, or its bytes.
func (m message) partHead(f kit.File, found string) []byte {
	kind := cmp.Or(f.Type, found)
	// These may not be in base64 (RFC 2046, sections 5.1 and 5.2).
	if mime.FormatMediaType(kind, nil) == "" || len(kind) > 127 || strings.HasPrefix(kind, "multipart/") || strings.HasPrefix(kind, "message/") {
		kind = unknownType
	}
	var b bytes.Buffer
	b.WriteString("--" + m.boundary(mixed) + "\r\n")
	header(&b, "Content-Type", []string{mime.FormatMediaType(kind, nil)})
	header(&b, "Content-Transfer-Encoding", []string{"base64"})
	header(&b, "Content-Disposition", append([]string{"attachment;"}, fileName(f.Name)...))
	b.WriteString("\r\n")
	return b.Bytes()
}

// fileName returns the parameter filename as words that fold: quoted, or in parts and
// percent-encoded (RFC 2231, sections 3 and 4).
func fileName(name string) []string {
	if printable(name) && len(name) <= nameChunk {
		return []string{"filename=" + mailbox.Quote(name)}
	}
	encoded := strings.ReplaceAll(url.QueryEscape(name), "+", "%20")
	var out []string
	for n := 0; len(encoded) > 0; n++ {
		cut := min(nameChunk, len(encoded))
		for cut < len(encoded) && (encoded[cut-1] == '%' || encoded[cut-2] == '%') {
			cut-- // not inside %XX
		}
		charset, end := "", ";"
		if n == 0 {
			charset = "utf-8''"
		}
		if cut == len(encoded) {
			end = ""
		}
		out = append(out, fmt.Sprintf("filename*%d*=%s%s%s", n, charset, encoded[:cut], end))
		encoded = encoded[cut:]
	}
	return out
}

// write writes all of the message but its end.
func (s *session) write(to io.Writer) error {
	w := bufio.NewWriterSize(to, 64<<10)
	if _, err := w.WriteString(s.now().UTC().Format("Date: Mon, 02 Jan 2006 15:04:05 -0700\r\n")); err != nil {
		return err
	}
	if _, err := w.Write(stuff(s.message.data)); err != nil {
		return err
	}
	for _, p := range s.parts {
		if err := p.write(w); err != nil {
			return err
		}
	}
	if len(s.parts) > 0 {
		if _, err := w.WriteString(s.message.lastBoundary()); err != nil {
			return err
		}
	}
	return w.Flush()
}

// write writes boundary, headers and content.
func (p part) write(w *bufio.Writer) error {
	if _, err := w.Write(p.head); err != nil {
		return err
	}
	in := bufio.NewReaderSize(p.asset.Reader(), 64<<10)
	var from [lineFile]byte
	var line [lineText + 2]byte
	for left := p.asset.Size; left > 0; {
		n := int(min(left, lineFile))
		if _, err := io.ReadFull(in, from[:n]); err != nil {
			return fmt.Errorf("read an attachment: %w", err)
		}
		k := base64.StdEncoding.EncodedLen(n)
		base64.StdEncoding.Encode(line[:], from[:n])
		copy(line[k:], "\r\n")
		if _, err := w.Write(line[:k+2]); err != nil {
			return err
		}
		left -= int64(n)
	}
	return nil
}
