package receiver

import (
	"bytes"
	"strconv"
	"strings"
	"time"
)

// padding fills a payload up to about 600 bytes.
var padding = strings.Repeat("x", 510)

// Payload is a job's request: a JSON object of about 600 bytes with the number
// of the job in its run, and since when its lag counts.
func Payload(n int, since time.Time) []byte {
	b := make([]byte, 0, 640)
	b = append(b, `{"n":`...)
	b = strconv.AppendInt(b, int64(n), 10)
	b = append(b, `,"since":`...)
	b = strconv.AppendInt(b, since.UnixMicro(), 10)
	b = append(b, `,"user":"a8098c1a-f86e-11da-bd1a-00112444be1e","pad":"`...)
	b = append(b, padding...)
	return append(b, `"}`...)
}

// number finds a field in a payload. Databases that keep JSON as values move
// fields and add spaces.
func number(body []byte, name string) (int64, bool) {
	_, rest, found := bytes.Cut(body, []byte(name))
	if !found {
		return 0, false
	}
	rest = bytes.TrimLeft(rest, " ")
	end := bytes.IndexAny(rest, ",} ")
	if end < 0 {
		return 0, false
	}
	n, err := strconv.ParseInt(string(rest[:end]), 10, 64)
	return n, err == nil
}
