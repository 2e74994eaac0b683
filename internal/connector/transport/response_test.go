package transport

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
)

// answers are what mutated ones are made from.
var answers = []string{
	"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}",
	"HTTP/1.1 200 OK\r\nDate: Sat, 21 Nov 2026 12:00:00 GMT\r\nConnection: keep-alive\r\nKeep-Alive: timeout=5\r\nContent-Length: 11\r\n\r\nhello world",
	"HTTP/1.1 429 Too Many Requests\r\nRetry-After: 7\r\nretry-after: 9\r\ncontent-length: 0\r\n\r\n",
	"HTTP/1.1 200 OK\r\nContent-Length: 4\r\nConnection: close\r\n\r\nbody",
	"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
	"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
	"HTTP/1.1 200 OK\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\nabcd",
	"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok",
	"HTTP/1.1 204 No Content\r\nContent-Length: 0\r\n\r\n",
	"HTTP/1.1 304 Not Modified\r\nContent-Length: 7\r\n\r\n",
	"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\n",
	"HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok",
	"HTTP/1.1 200 OK\nContent-Length: 5\r\n\r\nhello",
	"HTTP/1.1 200 OK\r\nX: a\n\nhidden\r\nContent-Length: 5\r\n\r\nhello",
	"HTTP/1.1 200 OK\r\nX: a\r\n folded\r\nContent-Length: 1\r\n\r\nh",
	"HTTP/1.1 200 OK\r\nContent-Length : 1\r\n\r\nh",
	"HTTP/1.1 200 OK\r\n\r\nuntil the end",
	"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nokHTTP/1.1 500 unasked\r\n\r\n",
	"HTTP/1.1 200 OK\r\nContent-Length: +2\r\n\r\nok",
	"HTTP/1.1 200 OK\r\nPragma: no-cache\r\nContent-Length: 2\r\n\r\nok",
}

// TestPlainAnswersReadAlike reads answers, as they are and mutated, with the
// short way and without it: what the short way takes, it takes as net/http does.
func TestPlainAnswersReadAlike(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	taken := 0
	for i := range 40_000 {
		raw := []byte(answers[i%len(answers)])
		if i >= len(answers) {
			raw = mutate(r, raw)
		}
		if alike(t, raw, []int64{2, MaxExcerpt}[r.IntN(2)]) {
			taken++
		}
	}
	if taken < 2_000 {
		t.Errorf("only %d answers were taken in the short way", taken)
	}
	for n, want := range map[int]bool{0: true, 1: true, 2: true, 3: false, 4: false, 7: false, 11: false, 17: true} {
		if _, ok := lineOf([]byte(answers[n])).readCommon("POST", MaxExcerpt); ok != want {
			t.Errorf("%q: taken %v", answers[n], ok)
		}
	}
	if _, ok := lineOf([]byte(answers[0])).readCommon("HEAD", MaxExcerpt); ok {
		t.Error("an answer to HEAD has no body")
	}
}

// FuzzPlainAnswer is the same for what a fuzzer thinks of.
func FuzzPlainAnswer(f *testing.F) {
	for _, a := range answers {
		f.Add([]byte(a))
	}
	f.Fuzz(func(t *testing.T, raw []byte) { alike(t, raw, MaxExcerpt) })
}

func lineOf(raw []byte) *Conn {
	l := &Conn{in: &cappedReader{r: bytes.NewReader(raw)}}
	l.in.allow(MaxHead, errHeadTooLarge)
	l.br = bufio.NewReaderSize(l.in, 4<<10)
	return l
}

// alike compares both ways, and reports whether the short one took the answer.
func alike(t *testing.T, raw []byte, keep int64) bool {
	t.Helper()
	short := lineOf(raw)
	got, ok := short.readCommon("POST", keep)
	if !ok {
		if l := lineOf(raw); len(raw) > 0 {
			_, _ = l.readCommon("POST", keep)
			if all, err := io.ReadAll(l.br); err != nil && !errors.Is(err, errHeadTooLarge) || err == nil && !bytes.Equal(all, raw) {
				t.Errorf("something of %q was taken: %q is left, %v", raw, all, err)
			}
		}
		return false
	}
	long := lineOf(raw)
	want := long.readGeneral("POST", keep)
	if got.status != want.status || !reflect.DeepEqual(got.header, want.header) || !bytes.Equal(got.excerpt, want.excerpt) ||
		got.cut != want.cut || got.keep != want.keep || want.err != nil || short.br.Buffered() != long.br.Buffered() {
		t.Errorf("%q is read as\n%+v, and by net/http as\n%+v", raw, got, want)
	}
	return true
}

// marks are bytes that matter in a head.
const marks = "\r\n \t:0159aZ-\x00\x7f\xff"

// mutate changes some bytes, moves parts, or repeats them.
func mutate(r *rand.Rand, raw []byte) []byte {
	raw = bytes.Clone(raw)
	for range 1 + r.IntN(3) {
		at := r.IntN(len(raw) + 1)
		switch r.IntN(4) {
		case 0:
			if at < len(raw) {
				raw[at] = marks[r.IntN(len(marks))]
			}
		case 1:
			raw = append(raw[:at:at], raw[min(len(raw), at+1+r.IntN(4)):]...)
		case 2:
			part := raw[at:min(len(raw), at+r.IntN(24))]
			raw = append(raw[:at:at], append(bytes.Clone(part), raw[at:]...)...)
		case 3:
			bits := strings.Split("\r\n|\n|: |Connection: close\r\n|Content-Length: 1\r\n|Transfer-Encoding: chunked\r\n|Trailer: X\r\n", "|")
			raw = append(raw[:at:at], append([]byte(bits[r.IntN(len(bits))]), raw[at:]...)...)
		}
	}
	return raw
}
