package kit

import (
	"bytes"
	"fmt"
	"net/textproto"
	"slices"
	"strings"

	"golang.org/x/net/http/httpguts"

	"github.com/fireonce/fireonce/clients/go/connectionsv1"
	"github.com/fireonce/fireonce/internal/connector"
	"github.com/fireonce/fireonce/internal/connector/transport"
	"github.com/fireonce/fireonce/internal/job"
)

// Rules of this file: a 5xx proves nothing, because receivers answer it after they have acted,
// and so do proxies in front of them. Only the owner of a proxy may know an answer of it that
// a receiver which acted never has. Such an answer needs a mark beside its status; it counts
// only if it is complete and in time; a timeout of the proxy never is one; and it is a refusal
// of this request, which says nothing about other attempts.

// Limits of what is stated, as the contract has them.
const (
	maxUnacted     = 10
	maxMark        = 200
	minBodyMark    = 8
	maxMarkedBytes = 2000 // of the body
)

// proxyTimeouts are statuses with which a proxy reports that the receiver took too long: it
// may still act.
var proxyTimeouts = []int{504, 524}

// Unacted are the answers by which a proxy proves that the receiver did not act. Nil: none.
type Unacted []unactedAnswer

type unactedAnswer struct {
	status       int
	name, value  string // of a header, in its canonical form
	bodyContains []byte
}

// ParseUnacted checks settings. It fails with *InputError.
func ParseUnacted(field string, stated []*connectionsv1.UnactedAnswer) (Unacted, error) {
	bad := Bad(connector.BadSettings, field+".unacted")
	if len(stated) > maxUnacted {
		return nil, bad("", fmt.Sprintf("at most %d", maxUnacted))
	}
	var out Unacted
	for i, s := range stated {
		u := unactedAnswer{status: int(s.GetStatus())}
		at := fmt.Sprintf("[%d]", i)
		if u.status < 500 || u.status > 599 || slices.Contains(proxyTimeouts, u.status) {
			return nil, bad(at+".status", "must be 500 to 599, but not 504 or 524: after a timeout of the proxy, the receiver may still act")
		}
		switch mark := s.GetMark().(type) {
		case *connectionsv1.UnactedAnswer_Header:
			u.name, u.value = textproto.CanonicalMIMEHeaderKey(mark.Header.GetName()), mark.Header.GetValue()
			if len(u.name) > maxKeptName || !httpguts.ValidHeaderFieldName(u.name) {
				return nil, bad(at+".header.name", `must be the name of a header, such as "X-Refused-By"`)
			}
			if u.value == "" || len(u.value) > maxMark || u.value != strings.TrimSpace(u.value) || !httpguts.ValidHeaderFieldValue(u.value) {
				return nil, bad(at+".header.value", fmt.Sprintf("must be the whole value of the header, at most %d bytes", maxMark))
			}
		case *connectionsv1.UnactedAnswer_BodyContains:
			u.bodyContains = []byte(mark.BodyContains)
			if len(u.bodyContains) < minBodyMark || len(u.bodyContains) > maxMark {
				return nil, bad(at+".body_contains", fmt.Sprintf("must be %d to %d bytes", minBodyMark, maxMark))
			}
		default:
			return nil, bad(at+".mark", "must name a header or a text of the body that only the proxy's own refusal has")
		}
		out = append(out, u)
	}
	return out, nil
}

// Judge makes an unknown outcome a refusal that is worth another attempt, if the answer is one
// of them.
func (u Unacted) Judge(o *job.Outcome, a transport.Response) {
	if o.Result != job.ResultUnknown || !a.Complete || a.TooLong || a.Written == 0 || !slices.ContainsFunc(u, func(one unactedAnswer) bool { return one.is(a) }) {
		return
	}
	o.Result, o.Kind = job.ResultRejected, job.FailTransient
	o.Message = transport.Clean(o.Message+"; by the connection's settings, this answer proves that the receiver did not act", transport.MaxMessage)
}

func (u unactedAnswer) is(a transport.Response) bool {
	switch {
	case a.Status != u.status:
		return false
	case u.name != "":
		values := a.Header.Values(u.name)
		return len(values) == 1 && values[0] == u.value
	default:
		return bytes.Contains(a.Excerpt[:min(len(a.Excerpt), maxMarkedBytes)], u.bodyContains)
	}
}
