package sandbox

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"sync"
	"time"
)

// Rules of this file: the fakes keep their state in memory. It is a function of the requests and
// their times. A request is written to the journal before it acts, so that every answered request
// survives a crash: a start plays the journal again. The journal is not synced: it survives the
// process, not the machine.

// maxJournal bounds the journal, in bytes: uploads are in it.
const maxJournal = 1 << 30

// request is a request that changes a platform's state.
type request struct {
	Site   string      `json:"site"`
	At     time.Time   `json:"at"`
	Method string      `json:"method,omitempty"`
	URI    string      `json:"uri,omitempty"`
	Header http.Header `json:"header,omitempty"`
	Body   []byte      `json:"body,omitempty"`
	// From and To are an e-mail's.
	From string   `json:"from,omitempty"`
	To   []string `json:"to,omitempty"`
}

type journal struct {
	mu   sync.Mutex
	file *os.File
	size int64
}

var errJournalFull = errors.New("the sandbox keeps no more than 1 GiB of requests; start one in a new directory")

// openJournal reads the entries, oldest first, and opens the file for more. A last entry that a
// crash has cut off is dropped: its request was not answered.
func openJournal(path string, each func(request) error) (*journal, error) {
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	j := &journal{file: file}
	dec := json.NewDecoder(file)
	for {
		var r request
		err := dec.Decode(&r)
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			break
		}
		if err == nil {
			err = each(r)
		}
		if err != nil {
			return nil, errors.Join(fmt.Errorf("%s: %w", path, err), file.Close())
		}
		j.size = dec.InputOffset()
	}
	if err := file.Truncate(j.size); err != nil {
		return nil, errors.Join(err, file.Close())
	}
	if _, err := file.Seek(j.size, io.SeekStart); err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return j, nil
}

// add appends a request.
func (j *journal) add(r request) error {
	line, err := json.Marshal(r)
	if err != nil {
		return err
	}
	line = append(line, '\n')
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.size+int64(len(line)) > maxJournal {
		return errJournalFull
	}
	n, err := j.file.Write(line)
	j.size += int64(n)
	return err
}

func (j *journal) close() error { return j.file.Close() }
