package recur

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// A Cursor is a position in the beats of a schedule. It belongs to one generation of the schedule. It marshals to JSON
// that Schedule.ParseCursor reads.
type Cursor struct {
	generation int64
	positions  []position
	done       bool
}

// Done reports whether Next found that no beat follows. It is not stored.
func (c Cursor) Done() bool { return c.done }

const (
	cursorVersion  = 1
	maxCursorBytes = 4096
	maxPass        = 99
)

type cursorJSON struct {
	Version    int      `json:"v"`
	Generation int64    `json:"g"`
	Positions  []string `json:"at"`
}

// MarshalJSON writes the cursor.
func (c Cursor) MarshalJSON() ([]byte, error) {
	out := cursorJSON{Version: cursorVersion, Generation: c.generation, Positions: make([]string, len(c.positions))}
	for i, p := range c.positions {
		if p.pass == 0 {
			out.Positions[i] = "i:" + strconv.FormatInt(p.index, 10)
		} else {
			out.Positions[i] = string(p.append(nil))
		}
	}
	return json.Marshal(out)
}

// append writes a civil position as 2026-03-29T02:30:00/1.
func (p position) append(b []byte) []byte {
	b = p.civil.time().AppendFormat(b, civilLayout)
	b = append(b, '/')
	return strconv.AppendInt(b, int64(p.pass), 10)
}

// ParseCursor parses a stored cursor of this schedule's generation. It accepts exactly what MarshalJSON writes.
func (s *Schedule) ParseCursor(text []byte) (Cursor, error) {
	if len(text) > maxCursorBytes {
		return Cursor{}, fmt.Errorf("the cursor has more than %d bytes", maxCursorBytes)
	}
	var in cursorJSON
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&in); err != nil {
		return Cursor{}, fmt.Errorf("the cursor is damaged: %w", err)
	}
	switch {
	case in.Version != cursorVersion:
		return Cursor{}, fmt.Errorf("the cursor has version %d instead of %d", in.Version, cursorVersion)
	case in.Generation != s.spec.Generation:
		return Cursor{}, fmt.Errorf("the cursor is of generation %d, and the schedule of %d", in.Generation, s.spec.Generation)
	case len(in.Positions) != len(s.sources):
		return Cursor{}, fmt.Errorf("the cursor is for %d sources, and the schedule has %d", len(in.Positions), len(s.sources))
	}
	c := Cursor{generation: in.Generation, positions: make([]position, len(in.Positions))}
	for i, text := range in.Positions {
		p, err := parsePosition(text, s.sources[i].civil == nil)
		if err != nil {
			return Cursor{}, fmt.Errorf("the cursor's position %d: %w", i, err)
		}
		c.positions[i] = p
	}
	// The decoder accepts duplicate names, other letter cases and spaces, but MarshalJSON writes none of them.
	if again, err := json.Marshal(c); err != nil || !bytes.Equal(again, text) {
		return Cursor{}, errors.New("the cursor is damaged: it is not written as cursors are")
	}
	return c, nil
}

func parsePosition(text string, interval bool) (position, error) {
	if interval {
		number, found := strings.CutPrefix(text, "i:")
		index, err := strconv.ParseInt(number, 10, 64)
		if !found || err != nil || index > int64(maxCivil) || index < -int64(maxCivil) {
			return position{}, fmt.Errorf("%s is not an interval's", quote(text))
		}
		return position{index: index}, nil
	}
	civil, number, _ := strings.Cut(text, "/")
	pass, err := strconv.Atoi(number)
	if err != nil || pass < 1 || pass > maxPass {
		return position{}, fmt.Errorf("%s is not a time and its pass", quote(text))
	}
	// A position may be a little outside of the years of beats.
	c, err := parseCivilIn(civilLayout, civil, minYear-1, maxYear+1)
	if err != nil {
		return position{}, fmt.Errorf("%s is not a time and its pass", quote(text))
	}
	return position{civil: c, pass: pass}, nil
}
