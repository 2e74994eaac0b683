package platform

import (
	"net/http"
	"strings"
)

const toldPath = "/hook/told/"

// isTold reports whether a request brings a notice.
func isTold(r *http.Request) bool { return strings.HasPrefix(r.URL.Path, toldPath) }

// told serves a receiver of notices. It drops what has a key that it has seen.
func (p *Platform) told(w http.ResponseWriter, r *http.Request) {
	body, ok := p.body(r)
	if !ok {
		return
	}
	key, digest := keyOf(r.Header), digestOf(body)
	c := p.receive(Record{
		Type: TypeRequest, Face: FaceTold, Subject: ToldPrefix + r.PathValue("name"), Key: key, Body: digest, Content: p.unread(key, digest, body),
	})
	p.carryOut(w, r, c, func() (answer, uint64) { return p.onceFor(c) })
}

// unread returns a body unless it came under its key before.
func (p *Platform) unread(key, digest string, body []byte) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	name := key + " " + digest
	if p.notices[name] {
		return ""
	}
	p.notices[name] = true
	return string(body)
}
