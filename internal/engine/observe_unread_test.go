package engine_test

import (
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/fireonce/fireonce/clients/go/connectionsv1"
	"github.com/fireonce/fireonce/internal/connector"
	"github.com/fireonce/fireonce/internal/connector/feed"
	"github.com/fireonce/fireonce/internal/connector/x"
	"github.com/fireonce/fireonce/internal/job"
)

// fails draws whether a job's n-th read fails: 14 % do, and which ones depends on
// the job alone.
func fails(key string, n int) bool {
	h := fnv.New64a()
	fmt.Fprint(h, key)
	return rand.New(rand.NewPCG(h.Sum64(), uint64(n))).IntN(100) < 14
}

// lateness are the times from when something could be known to when it was.
type lateness []time.Duration

func (l lateness) report(t *testing.T) {
	t.Helper()
	slices.Sort(l)
	over := 0
	for _, d := range l {
		if d > time.Minute {
			over++
		}
	}
	t.Logf("%d found; half within %v, 95 %% within %v, the last after %v; %d after more than a minute",
		len(l), l[len(l)/2], l[len(l)*95/100], l[len(l)-1], over)
	// Three in a row fail for one read in 364, and there are several polls for each video.
	if over > len(l)/50 || l[len(l)-1] > 10*time.Minute {
		t.Errorf("%d of %d were found after more than a minute, the last after %v", over, len(l), l[len(l)-1])
	}
}

// An answer is lost, and 14 % of all reads fail: a post that is there is found within a
// minute of its settle time, by the settle times of X and of feeds.
func TestAPostThatIsThereIsFoundSoonAlthoughReadsFail(t *testing.T) {
	settings, err := proto.Marshal(&connectionsv1.FeedSettings{BaseUrl: "https://feed.example"})
	if err != nil {
		t.Fatal(err)
	}
	for name, settler := range map[string]connector.Settler{
		"x": x.New(x.Config{}), "feed": feed.New(feed.Config{}),
	} {
		traits, err := settler.Traits(settings)
		if err != nil {
			t.Fatal(err)
		}
		t.Run(name, func(t *testing.T) {
			observable(t, func(t *testing.T, w *world) {
				w.platform.told = func() job.Traits { return traits }
				w.platform.publish = func(_ int, c connector.Commit) job.Outcome {
					w.platform.commit(c.EffectKey)
					return unknown("connection reset")
				}
				var mu sync.Mutex
				reads := make(map[string]int)
				w.platform.observe = func(l connector.Look) job.Observation {
					mu.Lock()
					defer mu.Unlock()
					key := string(l.First.Frozen[len(l.First.EffectKey)+1:])
					if reads[key]++; fails(name+key, reads[key]) {
						return job.Observation{Verdict: job.SawInconclusive, Detail: "503"}
					}
					return job.Observation{Verdict: job.SawPresent, ExternalID: "post " + key}
				}
				w.start()
				var ids []job.ID
				for i := range 300 {
					text := fmt.Sprint("text ", i)
					ids = append(ids, w.submit(text, says(text), at(time.Duration(i)*time.Second)))
				}
				var late lateness
				for _, id := range ids {
					s := w.until(id, job.Succeeded, 2*time.Hour)
					late = append(late, s.Ended.Sub(s.Fence.Add(traits.ReadLag)))
				}
				late.report(t)
			})
		})
	}
}

// The platform processes for 40 seconds and is polled every 5.
func TestAPublishedVideoIsFoundSoonAlthoughPollsFail(t *testing.T) {
	const takes = 40 * time.Second
	for name, failing := range map[string]func(video, poll int) bool{
		"the seventh poll": func(_, poll int) bool { return poll == 7 },
		"14 % of all":      func(video, poll int) bool { return fails(fmt.Sprint("video ", video), poll) },
	} {
		t.Run(name, func(t *testing.T) {
			in(t, func(t *testing.T, w *world) {
				var mu sync.Mutex
				number, accepted, polls := make(map[string]int), make(map[string]time.Time), make(map[string]int)
				w.platform.publish = func(_ int, c connector.Commit) job.Outcome {
					mu.Lock()
					defer mu.Unlock()
					accepted[c.EffectKey] = time.Now()
					return job.Outcome{Result: job.ResultAccepted, Handle: c.EffectKey}
				}
				w.platform.poll = func(handle string) job.Outcome {
					mu.Lock()
					defer mu.Unlock()
					polls[handle]++
					switch {
					case failing(number[handle], polls[handle]):
						return unknown("503")
					case time.Since(accepted[handle]) < takes:
						return job.Outcome{Result: job.ResultAccepted, Handle: handle}
					default:
						return job.Outcome{Result: job.ResultSucceeded, ExternalID: handle}
					}
				}
				w.start()
				var ids []job.ID
				for i := range 100 {
					id := w.submit(fmt.Sprint("video ", i), at(time.Minute))
					mu.Lock()
					number[w.firstKey(id)] = i + 1
					mu.Unlock()
					ids = append(ids, id)
				}
				var late lateness
				for _, id := range ids {
					s := w.until(id, job.Succeeded, 2*time.Hour)
					late = append(late, s.Ended.Sub(accepted[w.firstKey(id)].Add(takes)))
				}
				late.report(t)
			}, class(job.Handle))
		})
	}
}
