package client

import (
	"fmt"
	"strings"
	"time"

	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/fireonce/fireonce/clients/go/fireoncev1"

	"github.com/fireonce/fireonce/cmd/fireonce/internal/duration"
	"github.com/fireonce/fireonce/cmd/fireonce/internal/terminal"
)

func (p *printer) line(format string, args ...any) {
	p.progress.Clear()
	fmt.Fprintf(p.w, format+"\n", args...)
}

func (p *printer) heading(text string) { p.line("%s", p.in(bold, text)) }

// plain removes what could control a terminal.
func plain(s string) string { return terminal.Plain(s) }

// many returns a number of things in words. The plural has an s more, unless it is given.
func many[N ~int | ~int32 | ~int64](n N, one string, plural ...string) string {
	if n != 1 && len(plural) > 0 {
		one = plural[0]
	} else if n != 1 {
		one += "s"
	}
	return fmt.Sprintf("%d %s", n, one)
}

func short(s string, n int) string { return terminal.Short(s, n) }

// stamp shows a time in the reader's own zone.
func stamp(t *timestamppb.Timestamp) string {
	if t == nil {
		return ""
	}
	return t.AsTime().Local().Format(tableTime)
}

// clock shows a time to the microsecond, for lines that belong to one history.
func clock(t *timestamppb.Timestamp) string {
	if t == nil {
		return ""
	}
	return t.AsTime().Local().Format("2006-01-02 15:04:05.000000")
}

// away returns how far a time is from now.
func away(t *timestamppb.Timestamp) string {
	if t == nil {
		return ""
	}
	d := time.Until(t.AsTime()).Round(time.Second)
	switch {
	case d == 0:
		return " (now)"
	case d > 0:
		return " (in " + duration.Format(d) + ")"
	default:
		return " (" + duration.Format(-d) + " ago)"
	}
}

func stateName(s fireoncev1.JobState) string {
	return strings.TrimPrefix(s.String(), "JOB_STATE_")
}

// word converts an enum's value for people.
func word(e interface {
	fmt.Stringer
	Descriptor() protoreflect.EnumDescriptor
}) string {
	return words(e.String(), e.Descriptor())
}

func words(name string, enum protoreflect.EnumDescriptor) string {
	if name = strings.TrimPrefix(name, enumPrefix(enum)); name == "UNSPECIFIED" {
		return ""
	}
	return name
}
