package httpapi

import (
	"cmp"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"

	"github.com/fireonce/fireonce/clients/go/connectionsv1"
	"github.com/fireonce/fireonce/clients/go/fireoncev1"
	"github.com/fireonce/fireonce/internal/connector"
	"github.com/fireonce/fireonce/internal/connector/kit"
	"github.com/fireonce/fireonce/internal/connector/transport"
	"github.com/fireonce/fireonce/internal/weburl"
)

// Rules of this file: a job names its own request, and the connection's owner decides
// what jobs may do with the credential: where (origins, paths), how (methods), and
// which part of an answer becomes visible (id_json_pointers). The permit is checked
// when a job is scheduled, and again, with the current settings, before it is sent.

// Limits of the lists, as the contract states them.
const (
	maxPaths    = 50
	maxPath     = 512
	maxPointers = 20
	// maxEscapes bounds how often a part of a path is unescaped; a part that is escaped
	// more often is refused.
	maxEscapes = 3
)

// permit is what a connection lets its jobs do.
type permit struct {
	stated   *connectionsv1.HttpSettings
	origins  kit.Origins
	paths    []string // empty: any
	methods  []string // empty: any
	ids      []string // empty: none
	keep     *kit.Keep
	unacted  kit.Unacted
	refusals kit.Refusals
	// keyHeader carries the effect key.
	keyHeader string
}

const pathSettings = "settings.http"

// usualKeyHeader carries the effect key unless the connection names another one.
const usualKeyHeader = "Idempotency-Key"

// readSettings reads what a connection lets its jobs do. It fails with *InputError.
func readSettings(encoded []byte) (permit, error) {
	s := new(connectionsv1.HttpSettings)
	if err := proto.Unmarshal(encoded, s); err != nil {
		return permit{}, badSettings("", "not readable")
	}
	p := permit{stated: s, paths: slices.Clone(s.GetPaths()), ids: s.GetIdJsonPointers()}
	var err error
	if p.origins, err = kit.ParseOrigins(pathSettings, s.GetOrigins()); err != nil {
		return p, err
	}
	if len(p.paths) > maxPaths {
		return p, badSettings(".paths", fmt.Sprintf("at most %d", maxPaths))
	}
	for i, path := range p.paths {
		p.paths[i] = weburl.EscapePath(path)
		if !strings.HasPrefix(path, "/") || len(path) > maxPath || strings.ContainsAny(path, "?#") || !plainPath(p.paths[i]) {
			return p, badSettings(fmt.Sprintf(".paths[%d]", i), `must be a path, such as "/v1/charges", or "/v1/" for what is below it, without empty, "." or ".." parts`)
		}
	}
	if p.keep, err = kit.ParseKeep(pathSettings, s.GetKeepAnswer()); err != nil {
		return p, err
	}
	if p.unacted, err = kit.ParseUnacted(pathSettings, s.GetUnacted()); err != nil {
		return p, err
	}
	if p.refusals, err = kit.ParseRefusals(pathSettings, s.GetRefusals()); err != nil {
		return p, err
	}
	if err = p.readKeyHeader(); err != nil {
		return p, err
	}
	for i, m := range s.GetMethods() {
		name, known := methods[m]
		if !known || m == fireoncev1.HttpMethod_HTTP_METHOD_UNSPECIFIED {
			return p, badSettings(fmt.Sprintf(".methods[%d]", i), "not a method that this connector sends")
		}
		p.methods = append(p.methods, name)
	}
	if len(p.ids) > maxPointers {
		return p, badSettings(".id_json_pointers", fmt.Sprintf("at most %d", maxPointers))
	}
	for i, text := range p.ids {
		if _, err := parsePointer(text); err != nil || text == "" {
			return p, badSettings(fmt.Sprintf(".id_json_pointers[%d]", i), errPointer.Error())
		}
	}
	return p, nil
}

// readKeyHeader reads the header that carries the effect key. It fails with *InputError.
func (p *permit) readKeyHeader() error {
	stated := p.stated.GetKeyHeader()
	if p.keyHeader = cmp.Or(stated, usualKeyHeader); stated == "" {
		return nil
	}
	if err := transport.CheckKeyHeader(stated); err != nil {
		return badSettings(".key_header", err.Error())
	}
	if p.stated.GetReceiverDedupes() != connectionsv1.ReceiverDedupes_RECEIVER_DEDUPES_YES {
		return badSettings(".key_header", "goes only with a receiver that dedupes")
	}
	return nil
}

var badSettings = kit.Bad(connector.BadSettings, pathSettings)

func (p permit) fits(auth kit.Auth) error {
	if kit.HasHeader(auth.Headers, p.keyHeader) {
		return badSettings(".key_header", "is a header of the credential; the key needs one of its own")
	}
	return p.origins.CheckSent(pathSettings, auth.Headers)
}

func (p permit) offers() (connector.Capability, error) {
	traits, err := kit.ReceiverTraits(pathSettings, p.keyHeader, p.stated)
	return connector.Capability{Traits: traits}, err
}

// allows refuses a request that the connection's owner does not permit; nil: it may be
// sent.
func (p permit) allows(q request) *connector.InputError {
	switch {
	case !p.origins.Allow(q.message.URL):
		return badPayload(".url", "is not at one of the connection's origins")
	case !p.allowsPath(q.message.URL):
		return badPayload(".url", "is not at one of the connection's paths")
	case len(p.methods) > 0 && !slices.Contains(p.methods, q.method):
		return badPayload(".method", q.method+" is not one of the connection's methods")
	case q.id != nil && !slices.Contains(p.ids, q.id.String()):
		return badPayload(".id_json_pointer", "is not one of the connection's id_json_pointers")
	}
	if i := slices.IndexFunc(q.message.Headers, func(h transport.Header) bool {
		return transport.FoldedName(h.Name) == transport.FoldedName(q.keyHeader)
	}); i >= 0 {
		return badPayload(fmt.Sprintf(".headers[%d]", i), "the header "+q.keyHeader+" is not allowed: by the connection's key_header, Fireonce sends the key in it")
	}
	return nil
}

// allowsPath compares paths as they are sent: the receiver takes /a%2Fb for
// another one than /a/b, or for the same, and we cannot know which.
func (p permit) allowsPath(u *url.URL) bool {
	if len(p.paths) == 0 {
		return true
	}
	path := u.EscapedPath()
	if path == "" {
		path = "/"
	}
	return slices.ContainsFunc(p.paths, func(allowed string) bool {
		return path == allowed || strings.HasSuffix(allowed, "/") && strings.HasPrefix(path, allowed) && plainPath(path)
	})
}

// plainPath reports whether every receiver reads a path as the same place: each part
// but the last is something, none is "." or "..", also behind a parameter, and none
// hides a slash, however often it is escaped.
func plainPath(path string) bool {
	parts := strings.Split(path, "/")[1:]
	for i, part := range parts {
		if part == "" && i < len(parts)-1 {
			return false
		}
		for range maxEscapes {
			plain, err := url.PathUnescape(part)
			if err != nil {
				return false
			}
			if plain == part {
				break
			}
			part = plain
		}
		name, _, _ := strings.Cut(part, ";")
		if plain, err := url.PathUnescape(part); err != nil || plain != part || name == "." || name == ".." ||
			strings.ContainsAny(part, "/\\\x00") {
			return false
		}
	}
	return true
}
