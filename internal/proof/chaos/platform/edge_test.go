package platform_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/fireonce/fireonce/internal/proof/chaos/platform"
)

// TestEdge sends requests through the proxy to a receiver that acts and then breaks off, or
// refuses, or answers. The marks prove that the receiver did not act; the statuses do not.
func TestEdge(t *testing.T) {
	w := start(t, platform.Options{Faults: platform.Faults{Rates: platform.Rates{platform.Drop: 0.4, platform.Unavailable: 0.1}}})
	edge, err := platform.StartEdge(w.URL(), 3)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := edge.Close(); err != nil {
			t.Error(err)
		}
	}()
	unmarked := make(map[int]int) // by status, of requests that have acted
	marked := make(map[int]int)
	try := func(subject string) {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, edge.URL()+"/hook/opaque/"+subject, strings.NewReader(hookBody(subject)))
		if err != nil {
			t.Fatal(err)
		}
		resp, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(req)
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(resp.Body)
		if err = errors.Join(err, resp.Body.Close()); err != nil {
			t.Fatal(err)
		}
		status, body, header := resp.StatusCode, string(text), resp.Header
		acted := w.effects(subject)
		switch mark := header.Get(platform.RefusedBy) == platform.Refused || strings.Contains(body, platform.NoReceiver); {
		case mark && acted > 0:
			t.Errorf("%s: %d with a mark, and %d effects", subject, status, acted)
		case mark:
			marked[status]++
		case status == 200 && acted != 1:
			t.Errorf("%s: %d effects", subject, acted)
		case acted > 0:
			unmarked[status]++
		}
	}
	for i := range 200 {
		try(fmt.Sprint("s", i))
	}
	if marked[502] == 0 || marked[503] == 0 || unmarked[502] == 0 || unmarked[503] == 0 || unmarked[200] == 0 {
		t.Errorf("marked %v, unmarked %v", marked, unmarked)
	}
	if c := edge.Counts(); c.Refused != marked[502]+marked[503] || c.Broken != unmarked[502]+unmarked[503] {
		t.Errorf("%v; marked %v, unmarked %v", c, marked, unmarked)
	}
	edge.Heal()
	refused := edge.Counts().Refused
	for i := range 100 {
		try(fmt.Sprint("healed", i))
	}
	if got := edge.Counts().Refused; got != refused {
		t.Errorf("%d refusals after it has healed", got-refused)
	}
}
