package main

import (
	"io"
	"strings"
	"testing"
	"time"

	"github.com/fireonce/fireonce/internal/proof/chaos/meter"
)

func TestSoakTimes(t *testing.T) {
	for minutes, want := range map[float64]times{
		0.5: {quiet: quietTurn, calm: 20 * time.Second, storm: 10 * time.Second, turns: 1, cycles: 1},
		15:  {quiet: quietTurn, calm: 30 * time.Second, storm: time.Minute, turns: 4, cycles: 5},
		600: {quiet: quietTurn, calm: 30 * time.Second, storm: time.Minute, turns: 4, cycles: 200},
	} {
		got := soakTimes(minutes)
		if got != want {
			t.Errorf("%v minutes: %v, want %v", minutes, got, want)
		}
		quiet := warmUp + quietStart + time.Duration(got.cycles*got.turns)*(lull+got.quiet)
		if sum := time.Duration(minutes * float64(time.Minute)); got.hostile() != sum || got.whole() != quiet+sum {
			t.Errorf("%v minutes are %v hostile, %v in all", minutes, got.hostile(), got.whole())
		}
	}
}

func TestOptionsOfASoak(t *testing.T) {
	o, err := parse(strings.Fields("-soak -minutes 2 -memory 100 -ceiling 50"), io.Discard)
	if err != nil || o.minutes != 2 || o.addressSpace != 100<<20 || o.ceiling != 50<<20 || o.jobs == 0 || o.faults == 0 {
		t.Errorf("%+v, %v", o, err)
	}
	if o, err := parse([]string{"-soak"}, io.Discard); err != nil || o.minutes != soakMinutes {
		t.Errorf("%+v, %v", o, err)
	}
	for _, with := range []string{"-jobs 5", "-faults 5", "-outside", "-platforms"} {
		if _, err := parse(strings.Fields("-soak "+with), io.Discard); err == nil {
			t.Errorf("-soak %s was taken", with)
		}
	}
}

// measured returns calls of one kind: n quiet ones and as many calm ones, of which one in
// fifty takes longer.
func measured(n int, kind string, quiet, calm time.Duration) *meter.Calls {
	calls := meter.NewCalls(time.Now)
	for p, longest := range map[meter.Phase]time.Duration{meter.Quiet: quiet, meter.Calm: calm} {
		calls.Enter(p)
		for i := range n {
			took := time.Millisecond
			if i%50 == 0 {
				took = longest
			}
			calls.Add(kind, took)
		}
	}
	return calls
}

func TestCallsThatHostileClientsSlow(t *testing.T) {
	for name, tt := range map[string]struct {
		n           int
		quiet, calm time.Duration
		want        string // empty: nothing is wrong with the kind
	}{
		"three times":   {1000, 10 * time.Millisecond, 30 * time.Millisecond, ""},
		"more":          {1000, 10 * time.Millisecond, 31 * time.Millisecond, "get: p99 is 31.0 ms"},
		"too few calls": {fewCalls - 1, 10 * time.Millisecond, 10 * time.Millisecond, "get: 99 quiet and 99 calm calls"},
	} {
		got := ""
		for _, why := range slowCalls(measured(tt.n, callGet, tt.quiet, tt.calm)) {
			if strings.HasPrefix(why, callGet) {
				got = why
			}
		}
		if (got == "") != (tt.want == "") || !strings.HasPrefix(got, tt.want) {
			t.Errorf("%s: %q, want %q", name, got, tt.want)
		}
	}
}

// climbing returns the memory of a life, in MiB.
func climbing(seconds int, from, by float64) meter.Life {
	l := meter.Life{PID: 7}
	for i := range seconds {
		l.Samples = append(l.Samples, int64((from+by*float64(i))*mebibyte))
	}
	l.Peak = l.Samples[len(l.Samples)-1]
	return l
}

func TestMemoryThatGrows(t *testing.T) {
	flat := climbing(100, 80, 0)
	for name, tt := range map[string]struct {
		lives []meter.Life
		want  string // empty: nothing is wrong
	}{
		"flat":             {[]meter.Life{flat}, ""},
		"growing":          {[]meter.Life{flat, climbing(100, 80, 1)}, "grew in 90 s from 104 MiB to 164 MiB"},
		"only at first":    {[]meter.Life{climbing(startSamples+leastSamples-1, 10, 5), flat}, ""},
		"over the ceiling": {[]meter.Life{flat, climbing(5, 600, 0)}, "had 600 MiB resident, more than 512 MiB"},
		"all too short":    {[]meter.Life{climbing(5, 80, 0)}, "no server lived long enough"},
	} {
		got := strings.Join(grown(tt.lives, 512*mebibyte), "\n")
		if (got == "") != (tt.want == "") || !strings.Contains(got, tt.want) {
			t.Errorf("%s: %q, want %q", name, got, tt.want)
		}
	}
}

// TestDeliveriesAreMeasuredFromTheAnswer: an event that comes first waited for nothing.
func TestDeliveriesAreMeasuredFromTheAnswer(t *testing.T) {
	now := time.Unix(0, 0)
	calls := meter.NewCalls(func() time.Time { return now })
	calls.Enter(meter.Quiet)
	d := newDeliveries(calls)
	d.answered("a")
	d.delivered("b")
	now = now.Add(time.Second)
	d.delivered("a")
	d.delivered("a") // its next event
	d.answered("b")
	if got := calls.Latency(callEvent, meter.Quiet); got.Calls != 2 || got.P50 != 0 || got.Max != time.Second {
		t.Errorf("%+v", got)
	}
}

func TestLastWords(t *testing.T) {
	long := strings.Repeat("x", 2*wordsKept)
	for _, tt := range []struct{ log, want string }{
		{"started\nfatal error: out of memory\n" + long, "fatal error: out of memory\n" + long[:wordsKept-27]},
		{"panic: first\npanic: second\n", "panic: second\n"},
		{long, long[:wordsKept]}, {"the end", "the end"},
	} {
		if got := lastWords(tt.log); got != tt.want {
			t.Errorf("%.40q: %.60q", tt.log, got)
		}
	}
}
