package platform

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"strings"
	"time"
)

// Types of records.
const (
	// TypeRequest is a request that was received whole, with what becomes of it.
	TypeRequest = "request"
	// TypeEffect is something that happened in the world, once.
	TypeEffect = "effect"
	// TypeLook is a listing of posts.
	TypeLook = "look"
)

// Kinds of faces.
const (
	FaceKeyed    = "keyed"
	FaceUnlocked = "unlocked"
	FaceOpaque   = "opaque"
	FaceFeed     = "feed"
	FaceTold     = "told"
)

// ToldPrefix begins the subjects of what comes at FaceTold. The receiver's name follows.
const ToldPrefix = "told-"

// KindOf returns the kind of a face: a feed's is "feed/" and its account.
func KindOf(face string) string {
	kind, _, _ := strings.Cut(face, "/")
	return kind
}

// Record is one line of the log.
type Record struct {
	Type string `json:"type"`
	// N numbers requests and looks; an effect has the number of its request.
	N    int64     `json:"n"`
	Time time.Time `json:"time"`
	Face string    `json:"face"`
	// Subject is what is to happen once; empty for looks.
	Subject string `json:"subject,omitempty"`
	// Number counts the requests for this subject at this face, from 1.
	Number int `json:"number,omitempty"`
	// Key is the idempotency key that came with the request.
	Key string `json:"key,omitempty"`
	// Body is a digest of the request's body.
	Body string `json:"body,omitempty"`
	// Content is the body that came at FaceTold, the first time that it came under its key.
	Content string `json:"content,omitempty"`
	// ID is the effect's, as the client's answer has it; unique in its face.
	ID    string `json:"id,omitempty"`
	Fault Fault  `json:"fault,omitempty"`
}

// maxLine bounds one line of a log, in bytes.
const maxLine = 4 << 20

// ReadLog reads a log from its beginning, record by record, while it is written
// or later. A torn last line, which no answer can have followed, is left out;
// any other line that is none is an error, which ends the sequence.
func ReadLog(path string) iter.Seq2[Record, error] {
	return func(yield func(Record, error) bool) {
		file, err := os.Open(path)
		if err != nil {
			yield(Record{}, err)
			return
		}
		defer func() { _ = file.Close() }()
		readLog(file, yield)
	}
}

func readLog(from io.Reader, yield func(Record, error) bool) {
	in := bufio.NewReaderSize(from, 1<<16)
	for n := 1; ; n++ {
		line, err := readLine(in)
		if errors.Is(err, io.EOF) {
			return // what is in line has no end: it was torn
		}
		var r Record
		if err == nil {
			err = json.Unmarshal(line, &r)
		}
		if err != nil {
			yield(Record{}, fmt.Errorf("line %d of the platform's log: %w", n, err))
			return
		}
		if !yield(r, nil) {
			return
		}
	}
}

// readLine returns a whole line; io.EOF: there is none.
func readLine(in *bufio.Reader) ([]byte, error) {
	var long []byte
	for {
		part, err := in.ReadSlice('\n')
		switch {
		case err == nil && long == nil:
			return bytes.TrimSuffix(part, []byte{'\n'}), nil
		case err == nil:
			return append(long, part[:len(part)-1]...), nil
		case !errors.Is(err, bufio.ErrBufferFull):
			return nil, err
		case len(long) > maxLine:
			return nil, errors.New("too long")
		}
		long = append(long, part...)
	}
}
