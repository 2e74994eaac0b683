//go:build failpoints

package main

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
)

// Rules of this file: it specifies submits as a sequence of calls. A key is free until a
// submit binds it; from then on it is bound permanently to one request, one job and one
// time. A history of many clients is correct if its calls can be ordered in such a
// sequence, each at an instant between its begin and its end (linearizability). A call
// without an answer never ends: it may take effect late, or not at all.

// content is the part of a request by which two requests are compared. Times are in
// microseconds since the Unix epoch.
type content struct {
	text   string        // of the payload
	at     int64         // schedule_time; 0: as soon as possible
	window time.Duration // start_window; 0: the default
}

// differs returns the names of the fields in which two requests differ, in order.
func (w content) differs(from content) string {
	var fields []string
	if w.text != from.text {
		fields = append(fields, "payload")
	}
	if w.at != from.at {
		fields = append(fields, "schedule_time")
	}
	if w.window != from.window {
		fields = append(fields, "start_window")
	}
	return strings.Join(fields, " ")
}

// stored returns the content of this request's job.
func (w content) stored() content {
	if w.window == 0 {
		w.window = defaultWindow
	}
	return w
}

// defaultWindow is the contract's start_window of a request that names none.
const defaultWindow = 2 * time.Hour

// ask is a call: a submit, or a read of the job with a key.
type ask struct {
	key     string
	read    bool
	content content // of a submit
	// last is how many calls of the key have answers. It is set for a submit without an
	// answer, which must come after them if it binds nothing; 0: anywhere. See lostLast.
	last int
}

func (a ask) String() string {
	if a.read {
		return "get " + a.key
	}
	return fmt.Sprintf("submit %s %+v", a.key, a.content)
}

// verdict is the meaning of an answer.
type verdict int

const (
	lost     verdict = iota // no answer, or one that leaves it open
	created                 // this call stored the job
	repeated                // the job existed
	refused                 // another request has the key
	found                   // the job
	notFound                // no job has the key
)

func (v verdict) String() string {
	return [...]string{"lost", "created", "repeated", "refused", "found", "not found"}[v]
}

// reply is an answer.
type reply struct {
	verdict verdict
	job     string
	when    int64   // canonical time
	holds   content // the job's content; not of a refusal
	fields  string  // the differing fields, of a refusal
}

func (r reply) String() string {
	if r.verdict == lost || r.verdict == notFound {
		return r.verdict.String()
	}
	return fmt.Sprintf("%s job %s at %d %s", r.verdict, r.job, r.when, r.fields)
}

// binding is the known state of a key.
type binding struct {
	bound   bool
	content content
	// job and when are unset while only a call without an answer can have bound the key:
	// the first answer after it sets them.
	job  string
	when int64
	// answered counts the answers so far.
	answered int
}

// bindsTo reports whether a submit could have bound the key with this answer.
func (w content) bindsTo(r reply) (bool, binding) {
	ok := r.job != "" && r.when != 0 && (w.at == 0 || w.at == r.when)
	return ok, binding{bound: true, content: w, job: r.job, when: r.when}
}

// answer reports whether an answer fits the job that holds the key, and returns the state
// after it.
func (b binding) answer(r reply) (bool, binding) {
	if !b.bound {
		return false, b
	}
	if b.job == "" {
		return b.content.bindsTo(r)
	}
	return r.job == b.job && r.when == b.when, b
}

// after is the specification: it reports whether a call can have this answer now, and
// returns the state after it.
func (b binding) after(a ask, r reply) (bool, binding) {
	holds := func(ok bool, next binding) (bool, binding) {
		want := next.content.stored()
		want.at = next.when
		return ok && r.holds == want, next
	}
	switch r.verdict {
	case lost:
		if b.bound {
			return a.last == 0 || b.answered == a.last, b
		}
		return !a.read, binding{bound: true, content: a.content}
	case created:
		ok, next := a.content.bindsTo(r)
		return holds(ok && !b.bound && !a.read, next)
	case repeated:
		ok, next := b.answer(r)
		return holds(ok && !a.read && a.content == b.content, next)
	case refused:
		ok, next := b.answer(r)
		differ := a.content.differs(b.content)
		return ok && !a.read && differ != "" && differ == r.fields, next
	case found:
		ok, next := b.answer(r)
		return holds(ok && a.read, next)
	case notFound:
		return a.read && !b.bound, b
	default:
		return false, b
	}
}

// submits is the model of the specification. Keys are independent.
var submits = porcupine.Model{
	Partition: func(history []porcupine.Operation) [][]porcupine.Operation {
		var out [][]porcupine.Operation
		for _, ops := range byKey(history) {
			out = append(out, ops)
		}
		return out
	},
	Init: func() any { return binding{} },
	Step: func(state, input, output any) (bool, any) {
		r, before := output.(reply), state.(binding)
		ok, next := before.after(input.(ask), r)
		next.answered = before.answered
		if r.verdict != lost {
			next.answered++
		}
		return ok, next
	},
	DescribeOperation: func(input, output any) string { return fmt.Sprintf("%v → %v", input, output) },
	DescribeState:     func(state any) string { return fmt.Sprintf("%+v", state) },
}

func byKey(history []porcupine.Operation) map[string][]porcupine.Operation {
	keys := make(map[string][]porcupine.Operation)
	for _, op := range history {
		key := op.Input.(ask).key
		keys[key] = append(keys[key], op)
	}
	return keys
}

// lostLast shortens the check of a history. A submit without an answer either binds the
// key or changes nothing. One that changes nothing may come after every call with an
// answer, because it never ends. So the checker need not try it elsewhere: an order
// exists exactly if an order of this form exists.
func lostLast(history []porcupine.Operation) []porcupine.Operation {
	answered := make(map[string]int)
	for _, op := range history {
		if op.Output.(reply).verdict != lost {
			answered[op.Input.(ask).key]++
		}
	}
	out := slices.Clone(history)
	for i := range out {
		if a := out[i].Input.(ask); out[i].Output.(reply).verdict == lost {
			a.last = answered[a.key]
			out[i].Input = a
		}
	}
	return out
}

// check returns the checker's verdict on a history.
func check(history []porcupine.Operation) porcupine.CheckResult {
	return porcupine.CheckOperationsTimeout(submits, lostLast(history), checkLimit)
}

// checkLimit bounds the check of a history. A check without a verdict by then is a failure.
const checkLimit = 30 * time.Second

// operation returns a call with its answer. A call without an answer ends at never.
func operation(client int, begin, end int64, a ask, r reply) porcupine.Operation {
	return porcupine.Operation{ClientId: client, Call: begin, Return: end, Input: a, Output: r}
}

// never is later than every answer.
const never = int64(1) << 60

// TestSubmitModel checks hand-made histories with the checker.
func TestSubmitModel(t *testing.T) {
	t.Parallel()
	const at = 1_900_000_000_000_000
	first, other := content{text: "a", at: at}, content{text: "b", at: at}
	soon := content{text: "a"}
	submit := func(w content) ask { return ask{key: "k", content: w} }
	get := ask{key: "k", read: true}
	gives := func(v verdict, job string, when int64, w content) reply {
		w = w.stored()
		w.at = when
		return reply{verdict: v, job: job, when: when, holds: w}
	}
	refuses := func(job string, when int64, fields string) reply {
		return reply{verdict: refused, job: job, when: when, fields: fields}
	}
	none, noAnswer := reply{verdict: notFound}, reply{}
	type step struct {
		begin, end int64
		ask        ask
		reply      reply
	}
	for name, tt := range map[string]struct {
		history []step
		want    porcupine.CheckResult
	}{
		"stored, repeated, refused and read": {[]step{
			{1, 2, get, none},
			{3, 4, submit(first), gives(created, "1", at, first)},
			{5, 6, submit(first), gives(repeated, "1", at, first)},
			{7, 8, submit(other), refuses("1", at, "payload")},
			{9, 10, get, gives(found, "1", at, first)},
		}, porcupine.Ok},
		"a server's own time": {[]step{
			{1, 2, submit(soon), gives(created, "1", at, soon)},
			{3, 4, submit(soon), gives(repeated, "1", at, soon)},
		}, porcupine.Ok},
		"the answer that said created is lost": {[]step{
			{1, never, submit(first), noAnswer},
			{2, 3, submit(first), gives(repeated, "1", at, first)},
			{4, 5, get, gives(found, "1", at, first)},
		}, porcupine.Ok},
		"a call without an answer never came": {[]step{
			{1, never, submit(other), noAnswer},
			{2, 3, get, none},
			{4, 5, submit(first), gives(created, "1", at, first)},
		}, porcupine.Ok},
		"a call without an answer comes late": {[]step{
			{1, never, submit(first), noAnswer},
			{2, 3, get, none},
			{4, 5, submit(other), refuses("1", at, "payload")},
		}, porcupine.Ok},
		"not found while the submit is under way": {[]step{
			{1, 5, submit(first), gives(created, "1", at, first)},
			{2, 3, get, none},
		}, porcupine.Ok},

		"created twice": {[]step{
			{1, 4, submit(first), gives(created, "1", at, first)},
			{2, 3, submit(first), gives(created, "1", at, first)},
		}, porcupine.Illegal},
		"created by two requests": {[]step{
			{1, 4, submit(first), gives(created, "1", at, first)},
			{2, 3, submit(other), gives(created, "2", at, other)},
		}, porcupine.Illegal},
		"two jobs": {[]step{
			{1, 2, submit(first), gives(created, "1", at, first)},
			{3, 4, submit(first), gives(repeated, "2", at, first)},
		}, porcupine.Illegal},
		"two jobs, by lost calls": {[]step{
			{1, never, submit(first), noAnswer},
			{2, never, submit(first), noAnswer},
			{3, 4, submit(first), gives(repeated, "1", at, first)},
			{5, 6, get, gives(found, "2", at, first)},
		}, porcupine.Illegal},
		"a job that no call stored": {[]step{
			{1, 2, submit(first), gives(repeated, "1", at, first)},
		}, porcupine.Illegal},
		"stored, and then stored by a call that was lost": {[]step{
			{1, never, submit(first), noAnswer},
			{2, 3, submit(first), gives(repeated, "1", at, first)},
			{4, 5, submit(first), gives(created, "1", at, first)},
		}, porcupine.Illegal},
		"not found after it was acknowledged": {[]step{
			{1, 2, submit(first), gives(created, "1", at, first)},
			{3, 4, get, none},
		}, porcupine.Illegal},
		"not found after it was found": {[]step{
			{1, never, submit(first), noAnswer},
			{2, 3, get, gives(found, "1", at, first)},
			{4, 5, get, none},
		}, porcupine.Illegal},
		"found before anybody asked for it": {[]step{
			{1, 2, get, gives(found, "1", at, first)},
			{3, 4, submit(first), gives(repeated, "1", at, first)},
		}, porcupine.Illegal},
		"another time than was asked for": {[]step{
			{1, 2, submit(first), gives(created, "1", at+1, first)},
		}, porcupine.Illegal},
		"a server's own time changes": {[]step{
			{1, 2, submit(soon), gives(created, "1", at, soon)},
			{3, 4, submit(soon), gives(repeated, "1", at+1, soon)},
		}, porcupine.Illegal},
		"a time of its own for a job of a lost call": {[]step{
			{1, never, submit(first), noAnswer},
			{2, 3, get, gives(found, "1", at+1, first)},
		}, porcupine.Illegal},
		"another request is taken for a repeat": {[]step{
			{1, 2, submit(first), gives(created, "1", at, first)},
			{3, 4, submit(other), gives(repeated, "1", at, first)},
		}, porcupine.Illegal},
		"the same request is refused": {[]step{
			{1, 2, submit(first), gives(created, "1", at, first)},
			{3, 4, submit(first), refuses("1", at, "payload")},
		}, porcupine.Illegal},
		"refused for a field that does not differ": {[]step{
			{1, 2, submit(first), gives(created, "1", at, first)},
			{3, 4, submit(other), refuses("1", at, "payload schedule_time")},
		}, porcupine.Illegal},
		"refused for another job": {[]step{
			{1, 2, submit(first), gives(created, "1", at, first)},
			{3, 4, submit(other), refuses("2", at, "payload")},
		}, porcupine.Illegal},
		"refused although the key is free": {[]step{
			{1, 2, submit(other), refuses("1", at, "payload")},
			{3, 4, submit(first), gives(created, "1", at, first)},
		}, porcupine.Illegal},
		"the content of another request": {[]step{
			{1, 2, submit(first), gives(created, "1", at, first)},
			{3, 4, get, gives(found, "1", at, other)},
		}, porcupine.Illegal},
	} {
		t.Run(name, func(t *testing.T) {
			var history []porcupine.Operation
			for i, s := range tt.history {
				history = append(history, operation(i, s.begin, s.end, s.ask, s.reply))
			}
			if got := check(history); got != tt.want {
				t.Errorf("the verdict is %s, want %s", got, tt.want)
			}
		})
	}
}

// TestLostLast checks that the shortened check has the same verdict as the full one.
func TestLostLast(t *testing.T) {
	t.Parallel()
	const histories, most = 3000, 7
	seed := rand.Uint64()
	random := rand.New(rand.NewPCG(seed, 0))
	verdicts := make(map[porcupine.CheckResult]int)
	for range histories {
		var history []porcupine.Operation
		for client := range 2 + random.IntN(most-1) {
			a := ask{key: "k", read: random.IntN(4) == 0, content: content{text: string('a' + rune(random.IntN(2))), at: 1}}
			r := reply{verdict: verdict(random.IntN(int(notFound) + 1)), job: "1", when: 1, holds: a.content.stored()}
			begin := random.Int64N(10)
			end := begin + random.Int64N(10)
			switch {
			case a.read:
				r.verdict = max(r.verdict, found)
			case r.verdict == refused:
				r.fields = "payload"
			case r.verdict > refused:
				r.verdict, end = lost, never
			case r.verdict == lost:
				end = never
			}
			history = append(history, operation(client, begin, end, a, r))
		}
		short, whole := check(history), porcupine.CheckOperationsTimeout(submits, history, checkLimit)
		if short != whole {
			t.Fatalf("seed %d: %s instead of %s: %v", seed, short, whole, history)
		}
		verdicts[short]++
	}
	if verdicts[porcupine.Ok] < histories/50 || verdicts[porcupine.Illegal] < histories/50 {
		t.Errorf("seed %d: the histories are %v: too much alike", seed, verdicts)
	}
	t.Logf("seed %d: %v", seed, verdicts)
}

// forgeries change one answer, the last of its kind, so that a history in which a call
// was answered as the key's creator becomes wrong.
var forgeries = map[string]struct {
	of     verdict
	change func(*reply)
}{
	"created twice":                      {repeated, func(r *reply) { r.verdict = created }},
	"two jobs":                           {repeated, func(r *reply) { r.job += "0" }},
	"another time":                       {found, func(r *reply) { r.when, r.holds.at = r.when+1, r.holds.at+1 }},
	"not found after it was stored":      {found, func(r *reply) { *r = reply{verdict: notFound} }},
	"other fields":                       {refused, func(r *reply) { r.fields += " retry_policy" }},
	"another request taken for a repeat": {refused, func(r *reply) { r.verdict = repeated }},
}

// forge returns a key's history with the last answer of a kind changed; nil: there is no
// such answer, or no call was answered as the job's creator.
func forge(ops []porcupine.Operation, of verdict, change func(*reply)) []porcupine.Operation {
	last, told := -1, false
	for i, op := range ops {
		v := op.Output.(reply).verdict
		told = told || v == created
		if v == of && (last < 0 || op.Call > ops[last].Call) {
			last = i
		}
	}
	if last < 0 || !told {
		return nil
	}
	ops = slices.Clone(ops)
	r := ops[last].Output.(reply)
	change(&r)
	ops[last].Output = r
	return ops
}
