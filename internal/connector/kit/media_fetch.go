package kit

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/fireonce/fireonce/clients/go/fireoncev1"
	"github.com/fireonce/fireonce/internal/connector"
	"github.com/fireonce/fireonce/internal/connector/transport"
	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/internal/weburl"
)

// Rules of this file:
//   - everything here happens before the arm and only reads, so every failure is a
//     *Refusal, and a request may be redirected and its connection be chosen by
//     net/http;
//   - a file that is gone, refused, too large or another one is permanent: asking
//     again would not change it. Whatever may be the network's fault is transient;
//   - a host of files that is busy holds back the one job, not the account that the
//     job posts to;
//   - messages name the host only: paths and queries may be secrets.

// noMedia is what a server without Media says of files.
const noMedia = "this server fetches no media"

// errRedirects is the error where a file's host redirects again and again.
var errRedirects = errors.New("too many redirects")

// Fetch reads the whole file, of at most most bytes; zero means as many as the
// configuration allows. A digest in ref is checked. It fails with *Refusal, as a nil Media
// always does. The caller closes the asset.
func (m *Media) Fetch(ctx context.Context, ref *fireoncev1.MediaRef, most int64) (*Asset, error) {
	if m == nil {
		return nil, &connector.Refusal{Kind: job.FailPermanent, Msg: noMedia}
	}
	if most <= 0 || most > m.most {
		most = m.most
	}
	ctx, cancel := context.WithTimeout(ctx, m.timeout)
	defer cancel()
	ctx, tooSlow := context.WithCancelCause(ctx)
	defer tooSlow(nil)
	u, err := m.check(ref)
	if err != nil {
		return nil, err
	}
	resp, err := m.ask(ctx, http.MethodGet, u)
	if err != nil {
		return nil, err
	}
	defer func() { _ = resp.Body.Close() }()
	if err := m.refused(resp, u, most); err != nil {
		return nil, err
	}
	held, err := m.enter()
	if err != nil {
		return nil, err
	}
	speed := watchSpeed(resp.Body, func() { tooSlow(errSlow) })
	defer speed.end()
	resp.Body = speed
	a := &Asset{spooled: held}
	if err := m.take(a, resp, ref, most); err != nil {
		held.leave()
		return nil, err
	}
	return a, nil
}

// take reads the answer's body into the asset and checks what it is.
func (m *Media) take(a *Asset, resp *http.Response, ref *fireoncev1.MediaRef, most int64) error {
	u := resp.Request.URL
	digest := sha256.New()
	n, err := io.Copy(io.MultiWriter(a.spooled, digest), io.LimitReader(resp.Body, most+1))
	switch {
	case errors.Is(err, errMediaFull):
		return busy(err)
	case errors.Is(err, errSlow):
		return slow(u)
	case err != nil:
		return unreachable(u, err)
	case n > most:
		return tooLarge(u, most)
	case n == 0:
		return gone(u, "is empty")
	}
	a.Size, a.content = n, a.spooled.content()
	digest.Sum(a.SHA256[:0])
	if want := ref.GetSha256(); len(want) > 0 && !bytes.Equal(want, a.SHA256[:]) {
		return gone(u, "is another one than the payload says: its SHA-256 differs")
	}
	head := make([]byte, 512)
	k, err := a.content.ReadAt(head[:min(n, 512)], 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return &connector.Refusal{Kind: job.FailTransient, Msg: "the media file could not be kept", Err: err}
	}
	if a.Type, err = typeOf(ref, resp, head[:k]); err != nil {
		return gone(u, err.Error())
	}
	return nil
}

// Probe asks whether the file is there and looks like one that can be sent,
// without reading it: for a warning as a job is scheduled. Much can change until
// it is sent, so it proves nothing. It fails with *Refusal.
func (m *Media) Probe(ctx context.Context, ref *fireoncev1.MediaRef) error {
	ctx, cancel := context.WithTimeout(ctx, ProbeTimeout)
	defer cancel()
	u, err := m.check(ref)
	if err != nil {
		return err
	}
	resp, err := m.ask(ctx, http.MethodHead, u)
	if err == nil && (resp.StatusCode/100 != 2 || resp.ContentLength == 0) {
		// Signed URLs are good for GET only, and some hosts know no HEAD.
		_ = resp.Body.Close()
		resp, err = m.ask(ctx, http.MethodGet, u)
	}
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	if err := m.refused(resp, u, m.most); err != nil {
		return err
	}
	if _, err := typeOf(ref, resp, nil); err != nil {
		return gone(resp.Request.URL, err.Error())
	}
	return nil
}

// check reads the reference's URL.
func (m *Media) check(ref *fireoncev1.MediaRef) (*url.URL, error) {
	u, err := transport.ParseURL(ref.GetUrl())
	if err != nil {
		return nil, &connector.Refusal{Kind: job.FailPermanent, Msg: "the media file's URL is not usable: " + err.Error()}
	}
	if m.httpsOnly && u.Scheme != "https" {
		return nil, &connector.Refusal{Kind: job.FailPermanent, Msg: "the media file's URL must start with https://"}
	}
	return u, nil
}

func (m *Media) ask(ctx context.Context, method string, u *url.URL) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, method, u.String(), nil)
	if err != nil {
		return nil, &connector.Refusal{Kind: job.FailPermanent, Msg: "the media file's URL is not usable", Err: err}
	}
	req.Header.Set("User-Agent", m.agent)
	req.Header.Set("Accept", "*/*")
	resp, err := m.client.Do(req)
	if err != nil {
		m.egress.LogDenied(ctx, transport.TargetOf(u).Host, err)
		return nil, unreachable(u, err)
	}
	return resp, nil
}

// redirect is http.Client.CheckRedirect. It removes Referer, because the URL of the
// redirecting host may hold a secret, and asks for the new URL in the form of ours: net/http
// would send a query as it came. A fragment is not sent.
func (m *Media) redirect(req *http.Request, before []*http.Request) error {
	req.Header.Del("Referer")
	if len(before) > MaxMediaRedirects {
		return errRedirects
	}
	u, err := weburl.ParsePage(req.URL.String())
	if err != nil {
		return fmt.Errorf("%w: %w", transport.ErrBadRequest, err)
	}
	if u.Scheme != "https" && (m.httpsOnly || before[len(before)-1].URL.Scheme == "https") {
		return fmt.Errorf("%w: a redirect to a URL without TLS", transport.ErrBadRequest)
	}
	u.Fragment, u.RawFragment = "", ""
	req.URL = u
	return nil
}

// refused returns why no file can be sent after an answer's head; nil: it can.
func (m *Media) refused(resp *http.Response, asked *url.URL, most int64) error {
	u, s := asked, resp.StatusCode
	if resp.Request != nil && resp.Request.URL != nil {
		u = resp.Request.URL
	}
	wait, stated := transport.Response{Status: s, Header: resp.Header, At: time.Now()}.Asked()
	switch {
	case s == http.StatusOK && resp.ContentLength > most:
		return tooLarge(u, most)
	case s == http.StatusOK && resp.ContentLength == 0:
		return gone(u, "is empty")
	case s == http.StatusOK:
		return nil
	case s == http.StatusTooManyRequests, s > 400 && s < 500 && s != http.StatusGone && stated:
		// No attempt is counted, so our own wait bounds what is asked from below.
		wait = max(wait, transport.DefaultRetryAfter)
		return &connector.Refusal{Kind: job.FailHeld, RetryAfter: wait, Msg: hosted(u) + " is not given out now: its host answered " + transport.StatusText(s)}
	case s >= 300 && s < 500 && s != http.StatusRequestTimeout && s != http.StatusTooEarly:
		return gone(u, "is not there: its host answered "+transport.StatusText(s))
	default:
		return &connector.Refusal{Kind: job.FailTransient, RetryAfter: wait, Msg: hosted(u) + " could not be fetched: its host answered " + transport.StatusText(s)}
	}
}

// unreachable turns an error of the network into a refusal.
func unreachable(u *url.URL, err error) *connector.Refusal {
	var urlErr *url.Error
	if errors.As(err, &urlErr) {
		err = urlErr.Err
	}
	switch {
	case errors.Is(err, errRedirects):
		return gone(u, "is not there: its host redirects more than 5 times")
	case errors.Is(err, transport.ErrBadRequest):
		return gone(u, "is not there: its host redirects to a URL that cannot be followed")
	}
	r := transport.RefuseDial(transport.TargetOf(u), err)
	r.Down = false // the file's host, not the target
	switch {
	case r.Kind == job.FailEgressDenied:
		r.Msg = "not allowed to fetch " + hosted(u)
		return r
	case errors.Is(r.Err, transport.ErrNoAddress):
		r.Msg = hosted(u) + " could not be fetched: " + r.Msg
		return r
	}
	return &connector.Refusal{Kind: job.FailTransient, Msg: transport.Clean(hosted(u)+" could not be fetched: "+transport.Broke(err), transport.MaxMessage)}
}

func slow(u *url.URL) *connector.Refusal {
	return &connector.Refusal{Kind: job.FailTransient, Msg: transport.Clean(fmt.Sprintf(
		"%s could not be fetched: its host sent less than %d KiB in %v", hosted(u), SlowMedia>>10, SlowMediaAfter), transport.MaxMessage)}
}

func gone(u *url.URL, why string) *connector.Refusal {
	return &connector.Refusal{Kind: job.FailPermanent, Msg: transport.Clean(hosted(u)+" "+why, transport.MaxMessage)}
}

func tooLarge(u *url.URL, most int64) *connector.Refusal {
	return gone(u, fmt.Sprintf("is too large: more than %d bytes", most))
}

func hosted(u *url.URL) string { return "the media file at " + transport.TargetOf(u).Host }

// typeOf finds a file's media type. A page where the payload speaks of something
// else is what hosts give when a file is gone or asks for a login.
func typeOf(ref *fireoncev1.MediaRef, resp *http.Response, head []byte) (string, error) {
	said := bare(resp.Header.Get("Content-Type"))
	want := bare(ref.GetMediaType())
	switch {
	case want == "" && (said == "" || said == "application/octet-stream"):
		return bare(http.DetectContentType(head)), nil
	case want == "":
		return said, nil
	case said == "text/html" && want != said:
		return "", fmt.Errorf("is a web page, not %s", want)
	}
	return want, nil
}

func bare(mediaType string) string {
	t, _, err := mime.ParseMediaType(mediaType)
	if err != nil {
		t, _, _ = strings.Cut(mediaType, ";")
		t = strings.ToLower(strings.TrimSpace(t))
	}
	return t
}
