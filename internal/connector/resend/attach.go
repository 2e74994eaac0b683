package resend

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"path"
	"strings"
	"time"

	"github.com/fireonce/fireonce/internal/connector"
	"github.com/fireonce/fireonce/internal/connector/kit"
	"github.com/fireonce/fireonce/internal/job"
)

// Rules of this file:
//   - attachments are fetched before the connection is opened, and held until the session
//     is closed;
//   - the same files give the same bytes: nothing that their host sends beside them goes into the
//     request, only the payload and the files' content. Resend refuses a
//     repeat that differs;
//   - they are written as they are read, since an e-mail may have 40 MB.

const (
	// MaxFiles bounds the attachments of one e-mail together, in bytes of base64
	// (resend.com/docs/api-reference/emails/send-email: "max 40MB per email, after
	// Base64 encoding of the attachments").
	MaxFiles = 40_000_000
	// slowest is the least expected speed of a connection, in bytes a second.
	slowest = 128 << 10
	// chunk is how many bytes of a file are encoded in one step; a multiple of three.
	chunk = 48 << 10
)

// refusedTypes are the ends of file names that Resend sends with no e-mail
// (resend.com/docs/knowledge-base/what-attachment-types-are-not-supported).
var refusedTypes = func() map[string]bool {
	out := make(map[string]bool)
	for _, end := range strings.Fields(`
		adp app asp bas bat cer chm cmd com cpl crt csh der exe fxp gadget hlp hta inf ins isp its js jse ksh lib lnk
		mad maf mag mam maq mar mas mat mau mav maw mda mdb mde mdt mdw mdz msc msh msh1 msh2 mshxml msh1xml msh2xml
		msi msp mst ops pcd pif plg prf prg reg scf scr sct shb shs sys ps1 ps1xml ps2 ps2xml psc1 psc2 tmp url
		vb vbe vbs vps vsmacros vss vst vsw vxd ws wsc wsf wsh xnk`) {
		out["."+end] = true
	}
	return out
}()

// checkFiles refuses what can be known of attachments before they are fetched. It
// fails with *connector.InputError.
func (c *Connector) checkFiles(mail kit.Email) error {
	if err := mail.CheckFiles(c.cfg.Media, c.cfg.HTTPSOnly); err != nil {
		return err
	}
	for i, f := range mail.Files {
		if end := strings.ToLower(path.Ext(f.Name)); refusedTypes[end] {
			return kit.BadEmail(fmt.Sprintf(".attachments[%d].file_name", i), "Resend sends no files whose name ends with "+end)
		}
	}
	return nil
}

// request is an e-mail as it is written: a JSON object with the attachments last.
type request struct {
	body   []byte // the object without its attachments
	files  []kit.File
	heads  [][]byte // what comes before each attachment's content
	assets []*kit.Asset
}

// These frame the list of attachments and each file in it.
const (
	listStart, listEnd = `,"attachments":[`, `]}`
	fileEnd            = `"}`
)

// head is an attachment up to its content.
func head(n int, f kit.File) ([]byte, error) {
	said, err := json.Marshal(struct {
		Name string `json:"filename"`
		Type string `json:"content_type,omitempty"`
	}{f.Name, f.Type})
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	if n > 0 {
		b.WriteByte(',')
	}
	b.Write(said[:len(said)-1])
	b.WriteString(`,"content":"`)
	return b.Bytes(), nil
}

// fetch reads the files. It fails with *connector.Refusal.
func (r *request) fetch(ctx context.Context, media *kit.Media) error {
	left := int64(MaxFiles)
	for i, f := range r.files {
		start, err := head(i, f)
		if err != nil {
			return &connector.Refusal{Kind: job.FailPermanent, Msg: "an attachment's name cannot be written as JSON", Err: err}
		}
		asset, err := media.Fetch(ctx, f.Ref(), max(left/4*3, 1)) // zero would mean no limit
		if err != nil {
			return fmt.Errorf("fetch an attachment: %w", err)
		}
		r.heads, r.assets = append(r.heads, start), append(r.assets, asset)
		left -= encodedSize(asset)
	}
	return nil
}

func encodedSize(a *kit.Asset) int64 { return (a.Size + 2) / 3 * 4 }

// letGo releases the files. Safe to call twice.
func (r *request) letGo() {
	for _, a := range r.assets {
		a.Close()
	}
}

// size is the request's length in bytes.
func (r *request) size() int64 {
	n := int64(len(r.body))
	if len(r.assets) == 0 {
		return n
	}
	n += int64(len(listStart) + len(listEnd) - 1) // the object's end comes later
	for i, a := range r.assets {
		n += int64(len(r.heads[i])) + encodedSize(a) + int64(len(fileEnd))
	}
	return n
}

// reader reads the request from its beginning.
func (r *request) reader() io.Reader {
	if len(r.assets) == 0 {
		return bytes.NewReader(r.body)
	}
	list := []io.Reader{bytes.NewReader(r.body[:len(r.body)-1]), strings.NewReader(listStart)}
	for i, a := range r.assets {
		list = append(list, bytes.NewReader(r.heads[i]), &encoder{from: a.Reader()}, strings.NewReader(fileEnd))
	}
	return io.MultiReader(append(list, strings.NewReader(listEnd))...)
}

// sendTime is how long the request may take on a slow connection; zero: as long as usual.
func (r *request) sendTime() time.Duration {
	if len(r.assets) == 0 {
		return 0
	}
	return time.Duration(r.size()/slowest+10) * time.Second
}

// encoder reads a file in base64.
type encoder struct {
	from io.Reader
	raw  [chunk]byte
	text [chunk / 3 * 4]byte
	left []byte
	err  error
}

// Read implements io.Reader.
func (e *encoder) Read(p []byte) (int, error) {
	if len(e.left) == 0 && e.err == nil {
		var n int
		n, e.err = io.ReadFull(e.from, e.raw[:])
		if e.err == io.ErrUnexpectedEOF { //nolint:errorlint // io.ReadFull returns it unwrapped
			e.err = io.EOF
		}
		base64.StdEncoding.Encode(e.text[:], e.raw[:n])
		e.left = e.text[:base64.StdEncoding.EncodedLen(n)]
	}
	if len(e.left) == 0 {
		return 0, e.err
	}
	n := copy(p, e.left)
	e.left = e.left[n:]
	return n, nil
}
