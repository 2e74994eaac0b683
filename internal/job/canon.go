package job

import (
	"crypto/sha256"
	"encoding/base32"
	"encoding/binary"
	"errors"
	"slices"
	"strings"
	"sync"
)

// canonVersion starts every canonical encoding. A changed encoding takes the
// next number, so that stored fingerprints never change meaning silently.
const canonVersion = 1

// Canon builds a canonical encoding: a version byte, then fields, each a
// length-prefixed name and a length-prefixed value. Two encodings are equal
// exactly when all their fields are. Protobuf's encoding would not do: it is
// not canonical across versions and languages.
type Canon struct{ buf []byte }

// NewCanon returns an encoding without fields.
func NewCanon() *Canon { return &Canon{buf: []byte{canonVersion}} }

// Grow ensures space for n more bytes.
func (c *Canon) Grow(n int) *Canon {
	c.buf = slices.Grow(c.buf, n)
	return c
}

// Field appends one named value.
func (c *Canon) Field(name string, value []byte) *Canon {
	c.buf = binary.AppendUvarint(c.buf, uint64(len(name)))
	c.buf = append(c.buf, name...)
	c.buf = binary.AppendUvarint(c.buf, uint64(len(value)))
	c.buf = append(c.buf, value...)
	return c
}

// Bytes returns the encoding so far.
func (c *Canon) Bytes() []byte { return c.buf }

// fieldDigest is the number of bytes that a fingerprint keeps of a field's SHA-256.
const fieldDigest = 16

// Fingerprint identifies the request under a key. Comparing two of them shows
// whether the requests are the same, and if not, which fields differ; it does
// not keep the fields' values. It covers the values as requested: defaults are
// not filled in, and an unset field differs from every value.
type Fingerprint struct{ fields []fingerprintField }

type fingerprintField struct {
	name   string
	digest [fieldDigest]byte
}

// ErrBadFingerprint is returned for stored bytes that are not a fingerprint.
var ErrBadFingerprint = errors.New("not a fingerprint")

// Set adds a field. value is nil for an unset field, which differs from an
// empty one.
func (f *Fingerprint) Set(name string, value []byte) {
	scratch, _ := scratches.Get().(*[]byte)
	// A Canon with one field, whose value is a tag before the value.
	b := append((*scratch)[:0], canonVersion)
	b = binary.AppendUvarint(b, uint64(len(name)))
	b = append(b, name...)
	b = binary.AppendUvarint(b, uint64(1+len(value)))
	tag := byte(0)
	if value != nil {
		tag = 1
	}
	b = append(append(b, tag), value...)
	sum := sha256.Sum256(b)
	if cap(b) <= maxScratch {
		*scratch = b
	}
	scratches.Put(scratch)
	field := fingerprintField{name: name}
	copy(field.digest[:], sum[:])
	if f.fields == nil {
		f.fields = make([]fingerprintField, 0, typicalFields)
	}
	f.fields = append(f.fields, field)
}

// aliasSuffix ends the name of an alias. No field of a request has it in its name.
const aliasSuffix = "="

// Alias adds another name of a field's value. The value is an object's id, and the alias is
// the key by which the client named that object. Two fingerprints with the same alias of a
// field agree in that field, even if the key names another object by now. An alias that only
// one of them has is ignored.
func (f *Fingerprint) Alias(name string, value []byte) { f.Set(name+aliasSuffix, value) }

const (
	// typicalFields is how many fields most fingerprints have.
	typicalFields = 8
	// maxScratch bounds the size of a buffer that is kept for the next digest.
	maxScratch = 16 << 10
)

// scratches holds buffers for the bytes that are digested: a submit digests seven fields.
var scratches = sync.Pool{New: func() any { return new([]byte) }}

// Bytes returns the stored form: a version byte, then each field's
// length-prefixed name and digest.
func (f Fingerprint) Bytes() []byte {
	out := []byte{canonVersion}
	for _, field := range f.fields {
		out = binary.AppendUvarint(out, uint64(len(field.name)))
		out = append(out, field.name...)
		out = append(out, field.digest[:]...)
	}
	return out
}

// ParseFingerprint parses the stored form.
func ParseFingerprint(b []byte) (Fingerprint, error) {
	var f Fingerprint
	if len(b) == 0 || b[0] != canonVersion {
		return f, ErrBadFingerprint
	}
	b = b[1:]
	for len(b) > 0 {
		n, used := binary.Uvarint(b)
		if used <= 0 || n > uint64(len(b)-used) || len(b)-used-int(n) < fieldDigest {
			return Fingerprint{}, ErrBadFingerprint
		}
		field := fingerprintField{name: string(b[used : used+int(n)])}
		b = b[used+int(n):]
		copy(field.digest[:], b)
		f.fields = append(f.fields, field)
		b = b[fieldDigest:]
	}
	return f, nil
}

// Equal reports whether both are of the same request.
func (f Fingerprint) Equal(g Fingerprint) bool { return len(f.Diff(g)) == 0 }

// Diff returns the names of the fields in which the two differ: those of f in
// f's order, then those that only g has. A field that one side lacks differs;
// an alias never does.
func (f Fingerprint) Diff(g Fingerprint) []string {
	other := make(map[string][fieldDigest]byte, len(g.fields))
	for _, field := range g.fields {
		other[field.name] = field.digest
	}
	same := make(map[string]bool) // by an alias
	for _, field := range f.fields {
		if of, alias := strings.CutSuffix(field.name, aliasSuffix); alias && other[field.name] == field.digest {
			same[of] = true
		}
	}
	var names []string
	for _, field := range f.fields {
		d, ok := other[field.name]
		if delete(other, field.name); ok && d == field.digest || same[field.name] || strings.HasSuffix(field.name, aliasSuffix) {
			continue
		}
		names = append(names, field.name)
	}
	for _, field := range g.fields {
		if _, only := other[field.name]; only && !same[field.name] && !strings.HasSuffix(field.name, aliasSuffix) {
			names = append(names, field.name)
		}
	}
	return names
}

// derivedPrefix starts keys that Fireonce derives from a request.
const derivedPrefix = ReservedKeyPrefix + "derived:"

// DerivedKey returns an idempotency key that is derived from the fingerprint of
// connection, payload and time, so that two identical requests are one job.
func DerivedKey(f Fingerprint) string {
	sum := sha256.Sum256(f.Bytes())
	enc := base32.StdEncoding.WithPadding(base32.NoPadding)
	return derivedPrefix + strings.ToLower(enc.EncodeToString(sum[:]))
}
