// Package logpage encodes events for storage: the event log as pages, one for each
// transaction and project, and a job's own events as its history.
//
// Rules of this package:
//
//   - Both formats begin with a version. Golden vectors keep version 1 decodable.
//   - A page is complete in itself but for its project, and a history but for what the job's
//     row has: a reader needs no other row.
//   - What a person or a target wrote, an event's Reason and Detail, is in neither, so that
//     an erasure need not rewrite them. An entry only notes that its event has such texts.
//   - An entry of a history does not depend on the one before it, so that SQL can append it
//     without reading what is there.
//   - A body that is cut short or has a byte too many is ErrBody, never a shorter log.
//
// Numbers are varints as in encoding/binary, texts are bytes after their length, and times
// are microseconds since 1970.
package logpage

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/fireonce/fireonce/internal/job"
)

// MaxEvents bounds the entries of one page.
const MaxEvents = 1024

// MaxHistory is how long a history in a job's row may be, in bytes, before the next event
// begins a new one.
const MaxHistory = 2000

// ErrBody: the bytes are no page, or no history, of a version that this program knows.
var ErrBody = errors.New("malformed log page")

const version = 1

// Entry is an event in a page: without Reason and Detail.
type Entry struct {
	job.Event
	// Texts reports that the event has a Reason or a Detail.
	Texts bool
	// Class is the job's when the event was written; 0: not known.
	Class job.Class
	// Start reports that the event is the arm of a first attempt, and Lag how late that was
	// after the job's time; after a step of the clock it may be negative.
	Start bool
	Lag   time.Duration
}

// Start is a first attempt that was armed.
type Start struct {
	Connection job.ID
	Lag        time.Duration
}

// texts is the bit beside the cause that is set if an event has texts.
const texts = 0x80

// Encode returns the page of some events of one project, in the order of their positions.
// Entries are at most MaxEvents.
func Encode(entries []Entry) []byte {
	var d dictionaries
	for i := range entries {
		d.add(&entries[i])
	}
	size := 64 + 16*(len(d.jobs.all)+len(d.connections.all)+len(d.schedules.all)) + 16*len(entries)
	b := append(make([]byte, 0, size), version)
	b = appendIDs(b, d.jobs.all)
	b = appendIDs(b, d.connections.all)
	b = appendIDs(b, d.schedules.all)
	b = binary.AppendUvarint(b, uint64(len(d.actors.all)))
	for _, actor := range d.actors.all {
		b = appendText(b, actor)
	}
	b = binary.AppendUvarint(b, uint64(len(entries)))
	var position, at int64
	for i := range entries {
		e := &entries[i]
		now := e.At.UnixMicro()
		b = binary.AppendUvarint(b, uint64(e.Position-position))
		b = binary.AppendVarint(b, now-at)
		position, at = e.Position, now
		b = binary.AppendUvarint(b, d.jobs.at[e.Job])
		b = binary.AppendUvarint(b, d.connections.at[e.Connection])
		b = binary.AppendUvarint(b, d.schedules.index(e.Schedule))
		b = binary.AppendUvarint(b, uint64(e.Sequence))
		b = appendMove(b, &e.Event, e.Texts)
		b = binary.AppendUvarint(b, d.actors.at[e.Actor])
		b = append(b, byte(e.Class))
		b = appendStart(b, e.Start, e.Lag)
	}
	return b
}

// Decode returns the entries of a page of a project.
func Decode(project string, body []byte) ([]Entry, error) {
	r := reader{rest: body}
	r.version()
	jobs, connections, schedules := r.ids(), r.ids(), r.ids()
	actors := make([]string, r.count(1))
	for i := range actors {
		actors[i] = r.text()
	}
	entries := make([]Entry, r.count(leastEntry))
	var position, at int64
	for i := range entries {
		e := &entries[i]
		position += int64(r.uvarint())
		at += r.varint()
		e.Project, e.Position, e.At = project, position, time.UnixMicro(at).UTC()
		e.Job, e.Connection = pick(&r, jobs), pick(&r, connections)
		if n := r.uvarint(); n > 0 {
			e.Schedule = pickAt(&r, schedules, n-1)
		}
		e.Sequence = int64(r.uvarint())
		e.Texts = r.move(&e.Event)
		e.Actor = pick(&r, actors)
		e.Class = job.Class(r.byte())
		e.Start, e.Lag = r.start()
	}
	return entries, r.end("page")
}

// leastEntry is the length of the shortest entry of a page, in bytes.
const leastEntry = 12

// appendMove writes what an event reports of its job: the states, the cause, the attempt.
func appendMove(b []byte, e *job.Event, has bool) []byte {
	cause := byte(e.Cause)
	if has {
		cause |= texts
	}
	b = append(b, byte(e.From)<<4|byte(e.To), cause)
	return binary.AppendUvarint(b, uint64(e.Attempt))
}

func (r *reader) move(e *job.Event) (has bool) {
	states, cause := r.byte(), r.byte()
	e.From, e.To, e.Cause = job.State(states>>4), job.State(states&0xf), job.Cause(cause&^texts)
	e.Attempt = int(r.uvarint())
	return cause&texts != 0
}

// appendStart writes 0 for no start, and otherwise one more than the lag, encoded with the
// sign in the lowest bit.
func appendStart(b []byte, start bool, lag time.Duration) []byte {
	if !start {
		return append(b, 0)
	}
	n := lag.Microseconds()
	return binary.AppendUvarint(b, uint64(n<<1^n>>63)+1)
}

func (r *reader) start() (start bool, lag time.Duration) {
	n := r.uvarint()
	if n == 0 {
		return false, 0
	}
	n--
	return true, time.Duration(int64(n>>1)^-int64(n&1)) * time.Microsecond
}

// EncodeStarts returns the starts among the entries of a page; nil: there is none.
func EncodeStarts(entries []Entry) []byte {
	var connections dictionary[job.ID]
	n := 0
	for i := range entries {
		if entries[i].Start {
			connections.add(entries[i].Connection)
			n++
		}
	}
	if n == 0 {
		return nil
	}
	b := append(make([]byte, 0, 16+16*len(connections.all)+4*n), version)
	b = appendIDs(b, connections.all)
	b = binary.AppendUvarint(b, uint64(n))
	for i := range entries {
		if entries[i].Start {
			b = binary.AppendUvarint(b, connections.at[entries[i].Connection])
			b = appendStart(b, true, entries[i].Lag)
		}
	}
	return b
}

// DecodeStarts returns the starts that EncodeStarts wrote.
func DecodeStarts(body []byte) ([]Start, error) {
	if len(body) == 0 {
		return nil, nil
	}
	r := reader{rest: body}
	r.version()
	connections := r.ids()
	starts := make([]Start, r.count(2))
	for i := range starts {
		connection := pick(&r, connections)
		start, lag := r.start()
		if !start {
			r.fail()
		}
		starts[i] = Start{Connection: connection, Lag: lag}
	}
	return starts, r.end("starts")
}

// dictionaries hold what the events of a page have in common.
type dictionaries struct {
	jobs, connections, schedules dictionary[job.ID]
	actors                       dictionary[string]
}

func (d *dictionaries) add(e *Entry) {
	d.jobs.add(e.Job)
	d.connections.add(e.Connection)
	if !e.Schedule.IsZero() {
		d.schedules.add(e.Schedule)
	}
	d.actors.add(e.Actor)
}

// dictionary numbers values in the order in which they come.
type dictionary[T comparable] struct {
	all []T
	at  map[T]uint64
}

func (d *dictionary[T]) add(v T) {
	if n := len(d.all); n > 0 && d.all[n-1] == v {
		return
	}
	if _, ok := d.at[v]; ok {
		return
	}
	if d.at == nil {
		d.at = make(map[T]uint64)
	}
	d.at[v] = uint64(len(d.all))
	d.all = append(d.all, v)
}

// index is one more than a value's number; 0: it has none.
func (d *dictionary[T]) index(v T) uint64 {
	if n, ok := d.at[v]; ok {
		return n + 1
	}
	return 0
}

func appendIDs(b []byte, ids []job.ID) []byte {
	b = binary.AppendUvarint(b, uint64(len(ids)))
	for _, id := range ids {
		b = append(b, id[:]...)
	}
	return b
}

func appendText(b []byte, text string) []byte {
	b = binary.AppendUvarint(b, uint64(len(text)))
	return append(b, text...)
}

// reader reads a body. After the first error it reads zeros.
type reader struct {
	rest []byte
	bad  bool
}

func (r *reader) version() {
	if v := r.byte(); v != version {
		r.fail()
	}
}

func (r *reader) fail() { r.bad, r.rest = true, nil }

// end reports an error, also if something is left.
func (r *reader) end(what string) error {
	if r.bad || len(r.rest) > 0 {
		return fmt.Errorf("%w: %s", ErrBody, what)
	}
	return nil
}

func (r *reader) byte() byte {
	if len(r.rest) == 0 {
		r.fail()
		return 0
	}
	b := r.rest[0]
	r.rest = r.rest[1:]
	return b
}

func (r *reader) uvarint() uint64 {
	v, n := binary.Uvarint(r.rest)
	if n <= 0 {
		r.fail()
		return 0
	}
	r.rest = r.rest[n:]
	return v
}

func (r *reader) varint() int64 {
	v, n := binary.Varint(r.rest)
	if n <= 0 {
		r.fail()
		return 0
	}
	r.rest = r.rest[n:]
	return v
}

// count reads a number of things of which each has at least so many bytes.
func (r *reader) count(least int) int {
	n := r.uvarint()
	if n > uint64(len(r.rest)/least) {
		r.fail()
		return 0
	}
	return int(n)
}

func (r *reader) ids() []job.ID {
	ids := make([]job.ID, r.count(len(job.ID{})))
	for i := range ids {
		r.rest = r.rest[copy(ids[i][:], r.rest):]
	}
	return ids
}

func (r *reader) text() string {
	n := r.count(1)
	text := string(r.rest[:n])
	r.rest = r.rest[n:]
	return text
}

// pick reads the number of a value.
func pick[T any](r *reader, all []T) T { return pickAt(r, all, r.uvarint()) }

func pickAt[T any](r *reader, all []T, n uint64) (v T) {
	if n >= uint64(len(all)) {
		r.fail()
		return v
	}
	return all[n]
}

// ByProject divides events into pages: by project, in their order, as many as a page may have.
func ByProject(entries []Entry) [][]Entry {
	if slices.ContainsFunc(entries, func(e Entry) bool { return e.Project != entries[0].Project }) {
		entries = slices.Clone(entries)
		slices.SortStableFunc(entries, func(x, y Entry) int { return cmp.Compare(x.Project, y.Project) })
	}
	var out [][]Entry
	for begin, i := 0, 1; i <= len(entries); i++ {
		if i == len(entries) || i == begin+MaxEvents || entries[i].Project != entries[begin].Project {
			out = append(out, entries[begin:i])
			begin = i
		}
	}
	return out
}
