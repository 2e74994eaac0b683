package follow_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strconv"
	"sync"
	"testing"
	"time"

	"connectrpc.com/connect"

	"github.com/fireonce/fireonce/clients/go/fireoncev1"
	"github.com/fireonce/fireonce/clients/go/fireoncev1/fireoncev1connect"

	"github.com/fireonce/fireonce/cmd/fireonce/internal/follow"
)

// streams answers the n-th stream with the n-th script, and with the last script after that.
type streams struct {
	fireoncev1connect.UnimplementedJobServiceHandler
	scripts []func(after int, send func(n int)) error

	mu     sync.Mutex
	starts []string // the requested start of each stream
}

func (s *streams) StreamJobEvents(_ context.Context, req *fireoncev1.StreamJobEventsRequest, out *connect.ServerStream[fireoncev1.StreamJobEventsResponse]) error {
	s.mu.Lock()
	script := s.scripts[min(len(s.starts), len(s.scripts)-1)]
	start := req.GetAfterCursor()
	switch {
	case req.GetFromBeginning():
		start = "beginning"
	case req.GetFromNow():
		start = "now"
	}
	s.starts = append(s.starts, start)
	s.mu.Unlock()
	after, _ := strconv.Atoi(req.GetAfterCursor())
	return script(after, func(n int) {
		e := &fireoncev1.JobEvent{Cursor: strconv.Itoa(n)}
		if n%10 == 0 { // every tenth is a heartbeat
			e.Event = &fireoncev1.JobEvent_Heartbeat{Heartbeat: &fireoncev1.Heartbeat{}}
		} else {
			e.Event = &fireoncev1.JobEvent_JobChanged{JobChanged: &fireoncev1.JobChanged{Sequence: int64(n)}}
		}
		_ = out.Send(&fireoncev1.StreamJobEventsResponse{Event: e})
	})
}

func serve(t *testing.T, scripts ...func(int, func(int)) error) (*streams, fireoncev1connect.JobServiceClient) {
	t.Helper()
	s := &streams{scripts: scripts}
	mux := http.NewServeMux()
	mux.Handle(fireoncev1connect.NewJobServiceHandler(s))
	web := httptest.NewServer(mux)
	t.Cleanup(web.Close)
	return s, fireoncev1connect.NewJobServiceClient(web.Client(), web.URL)
}

// some sends count events after the cursor, and then ends with the code; 0: OK.
func some(count int, code connect.Code) func(int, func(int)) error {
	return func(after int, send func(int)) error {
		for n := after + 1; n <= after+count; n++ {
			send(n)
		}
		if code == 0 {
			return nil
		}
		return connect.NewError(code, errors.New("as planned"))
	}
}

func TestResumesWithoutGapOrRepeat(t *testing.T) {
	s, jobs := serve(t, some(3, connect.CodeUnavailable), some(0, connect.CodeUnavailable), some(9, 0), some(30, 0))
	var got []int64
	lost := 0
	err := follow.Events(t.Context(), jobs, follow.Options{Beginning: true, Lost: func(error) { lost++ }},
		func(e *fireoncev1.JobEvent) error {
			got = append(got, e.GetJobChanged().GetSequence())
			if len(got) == 20 {
				return follow.ErrStop
			}
			return nil
		})
	if err != nil {
		t.Fatal(err)
	}
	want := int64(0)
	for _, n := range got {
		if want++; want%10 == 0 {
			want++ // the heartbeat
		}
		if n != want {
			t.Fatalf("event %d where %d was due, in %v", n, want, got)
		}
	}
	starts := []string{"beginning", "3", "3", "12"}
	for i, start := range starts {
		if len(s.starts) != len(starts) || s.starts[i] != start {
			t.Fatalf("streams were started at %v, not %v", s.starts, starts)
		}
	}
	if lost != 1 {
		t.Errorf("%d losses were told, not 1", lost)
	}
}

func TestUnhandledEventComesAgain(t *testing.T) {
	s, jobs := serve(t, some(5, 0))
	broken := errors.New("broken")
	calls := 0
	err := follow.Events(t.Context(), jobs, follow.Options{}, func(*fireoncev1.JobEvent) error {
		calls++
		return broken
	})
	if !errors.Is(err, broken) || calls != 1 || s.starts[0] != "now" {
		t.Errorf("%v after %d calls, from %v", err, calls, s.starts)
	}
}

func TestFinalErrors(t *testing.T) {
	for _, code := range []connect.Code{
		connect.CodeInvalidArgument, connect.CodeOutOfRange, connect.CodeUnauthenticated,
		connect.CodePermissionDenied, connect.CodeUnimplemented, connect.CodeNotFound,
	} {
		s, jobs := serve(t, some(1, code))
		err := follow.Events(t.Context(), jobs, follow.Options{}, func(*fireoncev1.JobEvent) error { return nil })
		if connect.CodeOf(err) != code || len(s.starts) != 1 {
			t.Errorf("%v: %v after %d streams", code, err, len(s.starts))
		}
	}
}

func TestServerThatIsNotThere(t *testing.T) {
	web := httptest.NewServer(http.NotFoundHandler())
	web.Close()
	jobs := fireoncev1connect.NewJobServiceClient(http.DefaultClient, web.URL)
	err := follow.Events(t.Context(), jobs, follow.Options{}, func(*fireoncev1.JobEvent) error { return nil })
	if connect.CodeOf(err) != connect.CodeUnavailable {
		t.Errorf("%v", err)
	}
}

func TestPatienceEnds(t *testing.T) {
	_, jobs := serve(t, some(1, connect.CodeUnavailable), some(0, connect.CodeUnavailable))
	err := follow.Events(t.Context(), jobs, follow.Options{Patience: 300 * time.Millisecond},
		func(*fireoncev1.JobEvent) error { return nil })
	if connect.CodeOf(err) != connect.CodeUnavailable {
		t.Errorf("%v", err)
	}
}

func TestContextEnds(t *testing.T) {
	_, jobs := serve(t, some(1, 0))
	ctx, cancel := context.WithCancel(t.Context())
	err := follow.Events(ctx, jobs, follow.Options{}, func(*fireoncev1.JobEvent) error {
		cancel()
		return nil
	})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
}
