package tally

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/fireonce/fireonce/internal/proof/chaos/platform"
)

// Progress follows a platform's log while it is written, to tell how far a
// system has come.
type Progress struct {
	file     *os.File
	rest     []byte // the beginning of a line whose end is still to come
	subjects map[string]struct{}
}

// Follow begins at the beginning of a log.
func Follow(path string) (*Progress, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	return &Progress{file: file, subjects: make(map[string]struct{})}, nil
}

// Started reads what is new and returns how many subjects were asked for at least
// once.
func (p *Progress) Started() (int, error) {
	buf := make([]byte, 64<<10)
	for {
		n, err := p.file.Read(buf)
		p.rest = append(p.rest, buf[:n]...)
		if err := p.lines(); err != nil {
			return 0, err
		}
		if errors.Is(err, io.EOF) {
			return len(p.subjects), nil
		}
		if err != nil {
			return 0, err
		}
	}
}

// lines takes the whole lines out of rest.
func (p *Progress) lines() error {
	for {
		line, after, whole := bytes.Cut(p.rest, []byte{'\n'})
		if !whole {
			return nil
		}
		var r platform.Record
		if err := json.Unmarshal(line, &r); err != nil {
			return fmt.Errorf("the platform's log: %w", err)
		}
		if r.Type == platform.TypeRequest {
			p.subjects[r.Subject] = struct{}{}
		}
		p.rest = after
	}
}

// Close ends the following.
func (p *Progress) Close() error { return p.file.Close() }
