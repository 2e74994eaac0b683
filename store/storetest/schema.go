package storetest

import (
	"fmt"
	"regexp"
	"strconv"
	"testing"

	"github.com/fireonce/fireonce/internal/job"
)

// enumerations are the types of internal/job whose numbers the schemas name.
var enumerations = map[string]func(uint8) fmt.Stringer{
	"State":       func(n uint8) fmt.Stringer { return job.State(n) },
	"Class":       func(n uint8) fmt.Stringer { return job.Class(n) },
	"Delivery":    func(n uint8) fmt.Stringer { return job.Delivery(n) },
	"FailureKind": func(n uint8) fmt.Stringer { return job.FailureKind(n) },
	"AuthCause":   func(n uint8) fmt.Stringer { return job.AuthCause(n) },
	"Result":      func(n uint8) fmt.Stringer { return job.Result(n) },
	"Proof":       func(n uint8) fmt.Stringer { return job.Proof(n) },
	"Verdict":     func(n uint8) fmt.Stringer { return job.Verdict(n) },
	"Ruling":      func(n uint8) fmt.Stringer { return job.Ruling(n) },
	"Cause":       func(n uint8) fmt.Stringer { return job.Cause(n) },
}

var (
	// A comment on an enumeration, of one line or several, and the names in it.
	comment = regexp.MustCompile(`-- job\.(\w+): (\d [^.]*)\.`)
	further = regexp.MustCompile(`\n *-- (\d)`)
	named   = regexp.MustCompile(`(\d+) ([A-Z_]+)`)
)

// Schema checks that the comments of a schema name the numbers of internal/job's types as
// internal/job does, all of them.
func Schema(t *testing.T, schema string) {
	t.Helper()
	seen := make(map[string]bool)
	for _, c := range comment.FindAllStringSubmatch(further.ReplaceAllString(schema, " $1"), -1) {
		kind, list := c[1], c[2]
		text, ok := enumerations[kind]
		if !ok {
			t.Errorf("job.%s is not compared", kind)
			continue
		}
		seen[kind] = true
		names := named.FindAllStringSubmatch(list, -1)
		for i, n := range names {
			number, err := strconv.ParseUint(n[1], 10, 8)
			if err != nil || number != uint64(i+1) || text(uint8(number)).String() != n[2] {
				t.Errorf("job.%s: the schema has %s, want %d %s", kind, n[0], i+1, text(uint8(i+1)))
			}
		}
		switch next := text(uint8(len(names) + 1)); {
		case next == fmt.Stringer(job.FailHeld): // never stored
		case next.String() != text(255).String():
			t.Errorf("job.%s: the schema lacks %d %s", kind, len(names)+1, next)
		}
	}
	for kind := range enumerations {
		if !seen[kind] {
			t.Errorf("the schema has no comment on job.%s", kind)
		}
	}
}
