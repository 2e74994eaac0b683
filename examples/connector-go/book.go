package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"sync"
)

// entry is a line of the book.
type entry struct {
	Key  string `json:"key"`
	Name string `json:"name"`
	Text string `json:"text"`
}

// book is a file to which entries are added, one per line. It does not dedupe: the
// same entry added twice is there twice. An entry's id is the offset of its line.
type book struct {
	mu   sync.Mutex
	file *os.File
	end  int64
	// failed is set when it is unknown what a write has left in the file. A restart
	// reads the file again.
	failed error
}

func openBook(path string) (*book, error) {
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	data, err := io.ReadAll(file)
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	// A crash may have left a partial line. It was never an entry.
	end := int64(bytes.LastIndexByte(data, '\n') + 1)
	if err := file.Truncate(end); err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return &book{file: file, end: end}, nil
}

func (b *book) close() error { return b.file.Close() }

// errLate is returned for an entry that was no longer wanted when it could be written.
var errLate = errors.New("the time to write it was over")

// add writes an entry, if it is still wanted when it can be written, and returns its
// id. written reports whether anything may have reached the file. Only if it is false,
// a failure proves that there is no entry.
func (b *book) add(e entry, wanted func() bool) (id string, written bool, err error) {
	line, err := json.Marshal(e)
	if err != nil {
		return "", false, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.failed != nil {
		return "", false, b.failed
	}
	// Checked directly before the write: other writes may have been slow.
	if !wanted() {
		return "", false, errLate
	}
	at := b.end
	_, err = b.file.WriteAt(append(line, '\n'), at)
	if err = errors.Join(err, b.file.Sync()); err != nil {
		b.failed = fmt.Errorf("an earlier write: %w", err)
		return "", true, err
	}
	b.end += int64(len(line)) + 1
	return strconv.FormatInt(at, 10), true, nil
}

// mark returns the offset behind the last entry.
func (b *book) mark() (string, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return strconv.FormatInt(b.end, 10), b.failed
}

// find returns the ids of the entries from a mark on that have the key.
func (b *book) find(mark, key string) ([]string, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	at, err := strconv.ParseInt(mark, 10, 64)
	switch {
	case b.failed != nil:
		return nil, b.failed
	case err != nil || at < 0 || at > b.end:
		return nil, errors.New("the book is shorter than it was before")
	}
	var ids []string
	in := bufio.NewReader(io.NewSectionReader(b.file, at, b.end-at))
	for at < b.end {
		line, err := in.ReadBytes('\n')
		if err != nil {
			return nil, err
		}
		var e entry
		if err := json.Unmarshal(line, &e); err != nil {
			return nil, fmt.Errorf("the entry at %d is not readable", at)
		}
		if e.Key == key {
			ids = append(ids, strconv.FormatInt(at, 10))
		}
		at += int64(len(line))
	}
	return ids, nil
}
