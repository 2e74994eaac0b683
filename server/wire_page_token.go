package server

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/fireonce/fireonce/clients/go/fireoncev1"
	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/server/wire"
	"github.com/fireonce/fireonce/store"
)

// Rules of this file: cursors and page tokens are opaque texts that name a position. Each has a
// version, its kind, its owner (a hash over store, project and, for pages, the query), for
// cursors the database's incarnation, and a checksum. The checksum finds damage, not forgery: a
// forged token reaches nothing that the caller's project does not own, because every read names
// the project, too. A token depends on no process, so every server of one database reads the
// tokens of the others.

const (
	tokenVersion = 2
	ownerLen     = 8
	sumLen       = 4
	etagLen      = 12
	tokenLen     = 2 + ownerLen + 8 + len(job.ID{}) + 8 + sumLen
)

type tokenKind byte

const (
	logCursor tokenKind = 'L' // a position in the project's event log
	jobCursor tokenKind = 'J' // a sequence of one job
	jobPages  tokenKind = 'P'
	tryPages  tokenKind = 'A' // attempts
	lookPages tokenKind = 'O' // observations
	connPages tokenKind = 'C'
	bulkPages tokenKind = 'B'
	keyPages  tokenKind = 'K' // API keys
	planPages tokenKind = 'N' // jobs of a plan
	sealPages tokenKind = 'S' // sealed credentials

	schedulePages     tokenKind = 'T'
	bulkSchedulePages tokenKind = 'U'
	firingPages       tokenKind = 'F'
	backfillPages     tokenKind = 'V'
	itemPages         tokenKind = 'I'
	endedItemPages    tokenKind = 'E'
	subscriptionPages tokenKind = 'Q'
	noticePages       tokenKind = 'M'
	pausePages        tokenKind = 'H'
)

// token is a decoded cursor or page token.
type token struct {
	kind  tokenKind
	owner [ownerLen]byte
	// incarnation is the database's that at is a position or sequence of; 0 in page tokens, whose
	// positions no restore moves.
	incarnation int64
	id          job.ID
	at          int64 // a position, a sequence, a number, or a time in microseconds
}

var errBadToken = errors.New("malformed token")

var tokenText = base64.RawURLEncoding.Strict()

func (p token) String() string {
	b := make([]byte, 0, tokenLen)
	b = append(b, tokenVersion, byte(p.kind))
	b = append(b, p.owner[:]...)
	b = binary.BigEndian.AppendUint64(b, uint64(p.incarnation))
	b = append(b, p.id[:]...)
	b = binary.BigEndian.AppendUint64(b, uint64(p.at))
	sum := sha256.Sum256(b)
	return tokenText.EncodeToString(append(b, sum[:sumLen]...))
}

func parseToken(text string) (token, error) {
	b, err := tokenText.DecodeString(text)
	if err != nil || len(b) != tokenLen || b[0] != tokenVersion {
		return token{}, errBadToken
	}
	body, sum := b[:len(b)-sumLen], b[len(b)-sumLen:]
	if want := sha256.Sum256(body); string(sum) != string(want[:sumLen]) {
		return token{}, errBadToken
	}
	p := token{kind: tokenKind(b[1])}
	rest := body[2:]
	rest = rest[copy(p.owner[:], rest):]
	p.incarnation = int64(binary.BigEndian.Uint64(rest))
	rest = rest[8:]
	rest = rest[copy(p.id[:], rest):]
	p.at = int64(binary.BigEndian.Uint64(rest))
	if p.at < 0 || p.incarnation < 0 {
		return token{}, errBadToken
	}
	return p, nil
}

// tokens makes and reads the tokens of one store.
type tokens struct{ store job.ID }

// owner hashes the owner of a token.
func (t tokens) owner(project string, parts ...[]byte) [ownerLen]byte {
	c := job.NewCanon().Field("store", t.store[:]).Field("project", []byte(project))
	for _, p := range parts {
		c.Field("part", p)
	}
	sum := sha256.Sum256(c.Bytes())
	var out [ownerLen]byte
	copy(out[:], sum[:])
	return out
}

// cursor returns the text of a position in the project's event log.
func (t tokens) cursor(project string, incarnation, position int64) string {
	return token{kind: logCursor, owner: t.owner(project), incarnation: incarnation, at: position}.String()
}

// parseCursor reads a cursor of this store and project.
func (t tokens) parseCursor(project, text string) (token, error) {
	const reason = fireoncev1.ErrorReason_ERROR_REASON_CURSOR_INVALID
	p, err := parseToken(text)
	switch {
	case err != nil, p.kind != logCursor && p.kind != jobCursor:
		return token{}, refuse(reason, "after_cursor is no cursor of this API", "field", "after_cursor")
	case p.owner != t.owner(project):
		return token{}, refuse(reason, "after_cursor is of another project or another database", "field", "after_cursor")
	default:
		return p, nil
	}
}

// pager is one list that a client reads page by page.
type pager struct {
	kind  tokenKind
	owner [ownerLen]byte
	after token // where the page begins; zero: at the list's beginning
}

// readPage reads a page token. It is bound to a query, the request without what may change from page
// to page.
func (t tokens) readPage(kind tokenKind, project string, query proto.Message, text string) (pager, error) {
	name := query.ProtoReflect().Descriptor().FullName()
	enc, err := wire.Canonical(query.ProtoReflect())
	if err != nil {
		return pager{}, badField("", "unknown_field", wire.ErrUnknownField.Error())
	}
	return readOwnedPage(kind, t.owner(project, []byte(name), enc), text)
}

// readOwnedPage reads a page token that is bound to an owner; an empty one is the zero token.
func readOwnedPage(kind tokenKind, owner [ownerLen]byte, text string) (pager, error) {
	p := pager{kind: kind, owner: owner}
	if text == "" {
		return p, nil
	}
	const reason = fireoncev1.ErrorReason_ERROR_REASON_PAGE_TOKEN_INVALID
	after, err := parseToken(text)
	switch {
	case err != nil, after.kind != kind:
		return p, refuse(reason, "page_token is no token of this call", "field", "page_token")
	case after.owner != owner:
		return p, refuse(reason, "page_token was made for another query; start from the first page", "field", "page_token")
	}
	p.after = after
	return p, nil
}

// nextToken is the token of the page that begins after a place. The zero place has none: it is not that
// of an element.
func (p pager) nextToken(id job.ID, at int64) string {
	if id.IsZero() && at == 0 {
		return ""
	}
	return p.tokenAfter(id, at)
}

// tokenAfter is the token of the page that begins after a place, whichever it is.
func (p pager) tokenAfter(id job.ID, at int64) string {
	return token{kind: p.kind, owner: p.owner, id: id, at: at}.String()
}

// withoutPage is a request without what may change from page to page.
func withoutPage(req proto.Message) proto.Message {
	m := proto.Clone(req).ProtoReflect()
	for _, name := range []protoreflect.Name{"page_token", "page_size"} {
		if field := m.Descriptor().Fields().ByName(name); field != nil {
			m.Clear(field)
		}
	}
	m.SetUnknown(nil)
	return m.Interface()
}

// bulkRequest changes all objects that a filter selects, a page in each call.
type bulkRequest[F any] interface {
	proto.Message
	GetFilter() F
	GetDryRun() bool
	GetPageToken() string
}

func (p token) time() time.Time {
	if p.kind == 0 {
		return time.Time{}
	}
	return time.UnixMicro(p.at).UTC()
}

const (
	defaultPage = 50
	maxPage     = store.MaxBatch
	// maxAnswerBytes bounds an answer whose elements may be large: gRPC clients take 4 MiB
	// by default.
	maxAnswerBytes = 3 << 20
)

// pageSize returns the size of page that a request's page_size asks for.
func pageSize(asked int32) int {
	if asked <= 0 {
		return defaultPage
	}
	return min(int(asked), maxPage)
}
