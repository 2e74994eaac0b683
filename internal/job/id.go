package job

import (
	"encoding/hex"
	"errors"
	"time"
)

// ID is a UUID. Fireonce makes version 7 UUIDs, so that ids sort by the
// millisecond in which they were made.
type ID [16]byte

// ErrBadID is returned for a text that is not a UUID in its 36-character form.
var ErrBadID = errors.New("not a UUID")

// ParseID parses the 36-character form, in upper or lower case.
func ParseID(s string) (ID, error) {
	var id ID
	if len(s) != 36 || s[8] != '-' || s[13] != '-' || s[18] != '-' || s[23] != '-' {
		return ID{}, ErrBadID
	}
	compact := s[0:8] + s[9:13] + s[14:18] + s[19:23] + s[24:36]
	if _, err := hex.Decode(id[:], []byte(compact)); err != nil {
		return ID{}, ErrBadID
	}
	return id, nil
}

// String returns the lower-case 36-character form.
func (id ID) String() string {
	var b [36]byte
	hex.Encode(b[0:8], id[0:4])
	hex.Encode(b[9:13], id[4:6])
	hex.Encode(b[14:18], id[6:8])
	hex.Encode(b[19:23], id[8:10])
	hex.Encode(b[24:36], id[10:16])
	b[8], b[13], b[18], b[23] = '-', '-', '-', '-'
	return string(b[:])
}

// IsZero reports whether the id is unset.
func (id ID) IsZero() bool { return id == ID{} }

// Micros cuts a time to whole microseconds, the resolution of every stored
// time, in UTC. It cuts towards the past, as both databases do.
func Micros(t time.Time) time.Time { return t.UTC().Truncate(time.Microsecond) }
