package logpage_test

import (
	"bytes"
	"encoding/hex"
	"errors"
	"math/rand/v2"
	"reflect"
	"testing"
	"time"

	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/store/logpage"
)

var start = time.Date(2026, 11, 24, 12, 0, 0, 0, time.UTC)

func id(n byte) job.ID { return job.ID{15: n} }

// worked returns the four events of a job that succeeds, and one of another job that fails.
func worked() []logpage.Entry {
	at := func(ms int) time.Time { return start.Add(time.Duration(ms) * time.Millisecond) }
	return []logpage.Entry{
		{Event: job.Event{Position: 1<<20 + 1, Project: "p", Job: id(1), Connection: id(7), Sequence: 1, To: job.Scheduled,
			Cause: job.CauseSubmitted, Actor: "key-1", At: at(0)}, Class: job.Keyed},
		{Event: job.Event{Position: 1<<20 + 2, Project: "p", Job: id(1), Connection: id(7), Sequence: 2, From: job.Scheduled,
			To: job.Claimed, Cause: job.CauseClaimed, Actor: "worker-1", At: at(5)}, Class: job.Keyed},
		{Event: job.Event{Position: 1<<20 + 3, Project: "p", Job: id(1), Connection: id(7), Sequence: 3, From: job.Claimed,
			To: job.Sending, Cause: job.CauseArmed, Attempt: 1, Actor: "worker-1", At: at(5)}, Class: job.Keyed, Start: true, Lag: 5 * time.Millisecond},
		{Event: job.Event{Position: 1<<20 + 5, Project: "p", Job: id(2), Connection: id(8), Schedule: id(9), Sequence: 12,
			From: job.Sending, To: job.Failed, Cause: job.CauseAnswered, Attempt: 3, Actor: "worker-1", At: at(4)},
			Class: job.Opaque, Texts: true},
	}
}

// TestVersion1 keeps the bytes of version 1 decodable: a change of them needs a new version.
func TestVersion1(t *testing.T) {
	const (
		page = "010200000000000000000000000000000001000000000000000000000000000000020200000000000000000000000000" +
			"00000700000000000000000000000000000008010000000000000000000000000000000902056b65792d3108776f726b" +
			"65722d310481804080c0bcb28ec1b0060000000101010000010001904e00000002120200010100010000000003230301" +
			"0101914e02cf0f0101010c398403010400"
		starts  = "0101000000000000000000000000000000070100914e"
		history = "0181804080c0bcb28ec1b006010100056b65792d31828040908ebdb28ec1b00612020008776f726b65722d3183804090" +
			"8ebdb28ec1b00623030108776f726b65722d31"
	)
	entries := worked()
	check := func(what, want string, got []byte) {
		if g := hex.EncodeToString(got); g != want {
			t.Errorf("%s:\n got %s\nwant %s", what, g, want)
		}
	}
	check("page", page, logpage.Encode(entries))
	check("starts", starts, logpage.EncodeStarts(entries))
	var h []byte
	for _, e := range entries[:3] {
		h = logpage.AppendHistory(h, e.Event, e.Texts)
	}
	check("history", history, h)
}

func TestRoundTrip(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 500 {
		entries := random(rng)
		got, err := logpage.Decode("p", logpage.Encode(entries))
		if err != nil {
			t.Fatal(err)
		}
		if len(entries) > 0 && !reflect.DeepEqual(got, entries) {
			t.Fatalf("got %+v\nwant %+v", got, entries)
		}
		starts, err := logpage.DecodeStarts(logpage.EncodeStarts(entries))
		if err != nil {
			t.Fatal(err)
		}
		var want []logpage.Start
		for _, e := range entries {
			if e.Start {
				want = append(want, logpage.Start{Connection: e.Connection, Lag: e.Lag})
			}
		}
		if !reflect.DeepEqual(starts, want) {
			t.Fatalf("starts %v, want %v", starts, want)
		}
	}
}

func TestHistory(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	for range 200 {
		of := job.Event{Project: "p", Job: id(1), Connection: id(2), Schedule: id(3)}
		var history []byte
		var want []logpage.HistoryEvent
		for i, e := range random(rng) {
			e.Project, e.Job, e.Connection, e.Schedule, e.Sequence = of.Project, of.Job, of.Connection, of.Schedule, int64(7+i)
			want = append(want, logpage.HistoryEvent{Event: e.Event, Texts: e.Texts})
			if len(history) > 0 && rng.IntN(2) == 0 {
				history = append(history, logpage.HistoryEntry(e.Event, e.Texts)...)
			} else {
				history = logpage.AppendHistory(history, e.Event, e.Texts)
			}
		}
		got, err := logpage.DecodeHistory(of, int64(6+len(want)), history)
		if err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(got, want) {
			t.Fatalf("got %+v\nwant %+v", got, want)
		}
	}
}

// TestCut: a body that lost a byte, or has one too many, is refused.
func TestCut(t *testing.T) {
	entries := worked()
	page, starts := logpage.Encode(entries), logpage.EncodeStarts(entries)
	for n := range page {
		if _, err := logpage.Decode("p", page[:n]); !errors.Is(err, logpage.ErrBody) {
			t.Errorf("%d of %d bytes of a page: %v", n, len(page), err)
		}
	}
	for n := 1; n < len(starts); n++ {
		if _, err := logpage.DecodeStarts(starts[:n]); !errors.Is(err, logpage.ErrBody) {
			t.Errorf("%d of %d bytes of starts: %v", n, len(starts), err)
		}
	}
	if _, err := logpage.Decode("p", append(bytes.Clone(page), 0)); !errors.Is(err, logpage.ErrBody) {
		t.Errorf("a byte too many: %v", err)
	}
	history := logpage.AppendHistory(nil, entries[0].Event, false)
	if _, err := logpage.DecodeHistory(job.Event{}, 1, history[:len(history)-1]); !errors.Is(err, logpage.ErrBody) {
		t.Errorf("a history that is cut short: %v", err)
	}
}

func FuzzDecode(f *testing.F) {
	entries := worked()
	f.Add(logpage.Encode(entries))
	f.Add(logpage.EncodeStarts(entries))
	f.Add(logpage.AppendHistory(nil, entries[3].Event, true))
	f.Fuzz(func(t *testing.T, body []byte) {
		if got, err := logpage.Decode("p", body); err == nil && len(got) > len(body) {
			t.Errorf("%d entries of %d bytes", len(got), len(body))
		}
		if got, err := logpage.DecodeStarts(body); err == nil && len(got) > len(body) {
			t.Errorf("%d starts of %d bytes", len(got), len(body))
		}
		if got, err := logpage.DecodeHistory(job.Event{}, 1, body); err == nil && len(got) > len(body) {
			t.Errorf("%d events of %d bytes", len(got), len(body))
		}
	})
}

// random are entries of a few jobs, as a transaction may have them.
func random(rng *rand.Rand) []logpage.Entry {
	entries := make([]logpage.Entry, rng.IntN(40))
	position := rng.Int64N(1 << 60)
	for i := range entries {
		position += 1 + rng.Int64N(3)
		e := &entries[i]
		e.Event = job.Event{
			Position: position, Project: "p", Job: id(byte(rng.IntN(5))), Connection: id(byte(rng.IntN(3))),
			Sequence: 1 + rng.Int64N(1000), From: job.State(rng.IntN(12)), To: job.State(1 + rng.IntN(11)),
			Cause: job.Cause(1 + rng.IntN(30)), Attempt: rng.IntN(300), Actor: []string{"", "worker", "key"}[rng.IntN(3)],
			At: time.UnixMicro(start.UnixMicro() + rng.Int64N(1e9) - 5e8).UTC(),
		}
		if rng.IntN(3) == 0 {
			e.Schedule = id(byte(1 + rng.IntN(3)))
		}
		e.Texts, e.Class, e.Start = rng.IntN(4) == 0, job.Class(rng.IntN(5)), rng.IntN(2) == 0
		if e.Start {
			e.Lag = time.Duration(rng.Int64N(1e9)-1e8) * time.Microsecond
		}
	}
	return entries
}

func BenchmarkEncode(b *testing.B) {
	entries := make([]logpage.Entry, 64)
	for i := range entries {
		entries[i] = worked()[1+i%2]
		entries[i].Job, entries[i].Position = id(byte(i/2)), int64(1<<40+i)
	}
	b.ReportAllocs()
	var body []byte
	for b.Loop() {
		body = logpage.Encode(entries)
	}
	b.ReportMetric(float64(len(body))/64, "B/event")
}
