package fleet

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/signal"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/fireonce/fireonce/clients/go/fireoncev1"
)

// The servers of these tests are this test's own binary. Such a one says that it is
// ready, and does what its failpoint says: "exit" and "die" at
// SIGUSR1, nothing otherwise.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "serve" {
		serve()
		return
	}
	os.Exit(m.Run())
}

func serve() {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGUSR1)
	fmt.Fprintln(os.Stderr, "offsets", os.Getenv("FIREONCE_CLOCK_OFFSET"))
	fmt.Println("fake ready: http://127.0.0.1:1, gRPC 127.0.0.1:2, and more")
	for s := range signals {
		switch {
		case s == syscall.SIGTERM:
			if os.Getenv("FIREONCE_FREEZE") != "" {
				_ = syscall.Kill(os.Getpid(), syscall.SIGSTOP)
			}
			return
		case os.Getenv("FIREONCE_FAILPOINT") == "die":
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		case os.Getenv("FIREONCE_FAILPOINT") == "exit":
			os.Exit(7)
		}
	}
}

// death is what a fleet told of a server's end.
type death struct {
	server     int
	life       Life
	unexpected error
}

func newFleet(t *testing.T, servers int) (*Fleet, chan death) {
	t.Helper()
	deaths := make(chan death, 8)
	f := New(Options{
		Binary: os.Args[0], Dir: t.TempDir(), Servers: servers, Database: "none",
		Died: func(server int, life Life, unexpected error) { deaths <- death{server, life, unexpected} },
	})
	t.Cleanup(f.Close)
	return f, deaths
}

func patiently(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

func start(t *testing.T, f *Fleet, server int, life Life) {
	t.Helper()
	if err := f.Start(patiently(t), server, life); err != nil {
		t.Fatal(err)
	}
}

func TestWhoeverEndsByItselfIsStartedAgain(t *testing.T) {
	for failpoint, expected := range map[string]bool{"die": true, "exit": false} {
		t.Run(failpoint, func(t *testing.T) {
			f, deaths := newFleet(t, 2)
			start(t, f, 1, Life{Failpoint: failpoint, Offsets: "1s,2s"})
			if !f.StepClock(1) { // the process ends then
				t.Fatal("no server")
			}
			got := <-deaths
			if got.server != 1 || got.life.Failpoint != failpoint || (got.unexpected == nil) != expected {
				t.Errorf("%+v", got)
			}
			if _, err := f.API(patiently(t)); err != nil {
				t.Fatalf("it did not come back: %v", err)
			}
			if life, ok := f.Life(1); !ok || life.Failpoint != "" {
				t.Errorf("its next life is %+v, %v", life, ok)
			}
		})
	}
}

func TestTheClockStaysAsItWasSet(t *testing.T) {
	f, _ := newFleet(t, 1)
	start(t, f, 0, Life{Offsets: "1s,2s,3s"})
	f.StepClock(0)
	if life, _ := f.Life(0); life.Offsets != "2s,3s" {
		t.Errorf("offsets %q", life.Offsets)
	}
	f.Kill(0)
	start(t, f, 0, Life{Offsets: "5s"})
	if _, err := f.Stop(0); err != nil { // after which the log is whole
		t.Fatal(err)
	}
	if log := f.Log(0, 1<<10); !strings.Contains(log, "offsets 1s,2s,3s\n") || !strings.HasSuffix(log, "offsets 5s\n") {
		t.Errorf("the log of both lives:\n%s", log)
	}
}

func TestWhoeverIsEndedStaysDown(t *testing.T) {
	f, deaths := newFleet(t, 2)
	start(t, f, 0, Life{Failpoint: "die"})
	start(t, f, 1, Life{})
	if err := f.Start(patiently(t), 0, Life{}); err == nil {
		t.Error("one server was started twice")
	}
	if !f.Kill(0) || f.Kill(0) {
		t.Error("one server was not killed once")
	}
	if ran, err := f.Stop(1); !ran || err != nil {
		t.Errorf("stop: %v, %v", ran, err)
	}
	for i := range f.Size() {
		if _, runs := f.Life(i); runs {
			t.Errorf("server %d runs", i)
		}
	}
	f.Close()
	if len(deaths) > 0 {
		t.Errorf("it was told of: %+v", <-deaths)
	}
}

func TestFrozenAndThawed(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("what is frozen is read from /proc")
	}
	f, _ := newFleet(t, 1)
	start(t, f, 0, Life{})
	becomes := func(frozen bool) {
		t.Helper()
		for ctx := patiently(t); f.Frozen(0) != frozen; runtime.Gosched() {
			if ctx.Err() != nil {
				t.Fatalf("frozen: %v", !frozen)
			}
		}
	}
	becomes(false)
	f.Freeze(0)
	becomes(true)
	f.Thaw(0)
	becomes(false)
	f.Freeze(0)
	becomes(true)
	if !f.Kill(0) {
		t.Error("a frozen server was not killed")
	}
}

func TestWhoFreezesOnItsWayToTheEndIsThawed(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("what is frozen is read from /proc")
	}
	f, _ := newFleet(t, 1)
	start(t, f, 0, Life{Freeze: "at SIGTERM"})
	if ran, err := f.Stop(0); !ran || err != nil {
		t.Errorf("stop: %v, %v", ran, err)
	}
}

func TestCallsGoOnUntilOneAnswers(t *testing.T) {
	f, _ := newFleet(t, 2)
	start(t, f, 0, Life{})
	start(t, f, 1, Life{})
	var asked []*API
	err := f.Call(patiently(t), 0, func(_ context.Context, api *API) error {
		if asked = append(asked, api); len(asked) < 3 {
			return context.DeadlineExceeded
		}
		return nil
	})
	if err != nil || len(asked) != 3 || asked[0] == asked[1] || asked[0] != asked[2] {
		t.Errorf("%d calls, %v", len(asked), err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	f.Kill(0)
	f.Kill(1)
	if err := f.Call(ended, 0, nil); err == nil {
		t.Error("nobody answered, and that was no error")
	}
	if slices.Contains(asked, nil) {
		t.Error("a server without an API was asked")
	}
}

func TestListenersAreThoseOfTheServersThatRun(t *testing.T) {
	f, _ := newFleet(t, 2)
	if got := f.Listeners(); len(got) != 0 {
		t.Errorf("none runs: %+v", got)
	}
	start(t, f, 1, Life{})
	got := f.Listeners()
	if len(got) != 1 || got[0].Server != 1 || got[0].PID == 0 || got[0].URL != "http://127.0.0.1:1" || got[0].GRPC != "127.0.0.1:2" {
		t.Errorf("%+v", got)
	}
}

func TestTheAddressSpaceIsLimited(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("only Linux limits another process")
	}
	const limit = 4 << 30
	f := New(Options{Binary: os.Args[0], Dir: t.TempDir(), Servers: 1, Database: "none", AddressSpace: limit})
	t.Cleanup(f.Close)
	start(t, f, 0, Life{})
	limits, err := os.ReadFile(fmt.Sprintf("/proc/%d/limits", f.Listeners()[0].PID))
	if err != nil {
		t.Fatal(err)
	}
	if want := fmt.Sprintf("Max address space %d", int64(limit)); !strings.Contains(strings.Join(strings.Fields(string(limits)), " "), want) {
		t.Errorf("%q is not in\n%s", want, limits)
	}
}

// TestCallsCarryTheKey: unary ones and streams.
func TestCallsCarryTheKey(t *testing.T) {
	for key, want := range map[string]string{"": "", "secret": "Bearer secret"} {
		got := make(chan string, 2)
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			got <- r.Header.Get("Authorization")
			http.Error(w, "no", http.StatusForbidden)
		}))
		api := NewAPI(s.Client(), s.URL, key)
		if _, err := api.Jobs.GetJob(t.Context(), &fireoncev1.GetJobRequest{}); err == nil {
			t.Error("a refusal was no error")
		}
		stream, err := api.Jobs.StreamJobEvents(t.Context(), &fireoncev1.StreamJobEventsRequest{})
		if err == nil {
			stream.Receive()
			_ = stream.Close()
		}
		if unary, streamed := <-got, <-got; unary != want || streamed != want {
			t.Errorf("key %q: %q and %q", key, unary, streamed)
		}
		s.Close()
	}
}
