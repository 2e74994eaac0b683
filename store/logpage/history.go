package logpage

import (
	"encoding/binary"
	"time"

	"github.com/fireonce/fireonce/internal/job"
)

// HistoryEvent is an event of a job's history: without Reason and Detail.
type HistoryEvent struct {
	job.Event
	// Texts reports that the event has a Reason or a Detail.
	Texts bool
}

// AppendHistory appends an event to the history of its job; nil is an empty one.
func AppendHistory(history []byte, e job.Event, texts bool) []byte {
	if len(history) == 0 {
		history = append(make([]byte, 0, 64), version)
	}
	return appendHistory(history, &e, texts)
}

// HistoryEntry returns what an event adds to a history that is not empty.
func HistoryEntry(e job.Event, texts bool) []byte {
	return appendHistory(make([]byte, 0, 32+len(e.Actor)), &e, texts)
}

func appendHistory(b []byte, e *job.Event, texts bool) []byte {
	b = binary.AppendUvarint(b, uint64(e.Position))
	b = binary.AppendVarint(b, e.At.UnixMicro())
	b = appendMove(b, e, texts)
	return appendText(b, e.Actor)
}

// DecodeHistory returns the events of a history, oldest first. The sequence of the last one
// is known to the caller; of the others it follows. of has what is the same in all events:
// Project, Job, Connection and Schedule.
func DecodeHistory(of job.Event, last int64, history []byte) ([]HistoryEvent, error) {
	if len(history) == 0 {
		return nil, nil
	}
	r := reader{rest: history}
	r.version()
	events := make([]HistoryEvent, 0, len(history)/24+1)
	for len(r.rest) > 0 {
		e := HistoryEvent{Event: job.Event{
			Project: of.Project, Job: of.Job, Connection: of.Connection, Schedule: of.Schedule,
		}}
		e.Position = int64(r.uvarint())
		e.At = time.UnixMicro(r.varint()).UTC()
		e.Texts = r.move(&e.Event)
		e.Actor = r.text()
		events = append(events, e)
	}
	if err := r.end("history"); err != nil {
		return nil, err
	}
	for i := range events {
		events[i].Sequence = last - int64(len(events)-1-i)
	}
	return events, nil
}
