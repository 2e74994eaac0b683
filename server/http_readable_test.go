package server_test

import (
	"bytes"
	"encoding/json"
	"net/http"
	"reflect"
	"strings"
	"testing"
)

// TestJSONForPeople checks who gets lines, and that they change no value.
func TestJSONForPeople(t *testing.T) {
	t.Parallel()
	f := start(t)
	for _, c := range []struct {
		agent, query string
		lines        bool
	}{
		{"curl/8.5.0", "", true}, {"Wget/1.21", "", true}, {"HTTPie/3.2", "", true}, {"curl/8.5.0", "?pretty=0", false}, {"curl/8.5.0", "?pretty=false", false},
		{"connect-go/1.21", "", false}, {"connect-es/2.0", "?pretty", true}, {"Mozilla/5.0", "?pretty=1", true}, {"my-curl/1", "", false}, {"", "", false},
	} {
		for _, body := range []string{`{}`, `{"nothing": 1}`} {
			res, answer := f.do(http.MethodPost, jobsPath+"ListJobs"+c.query, body, map[string]string{"Content-Type": "application/json", "User-Agent": c.agent, "Accept-Encoding": "gzip"})
			var compact, plain bytes.Buffer
			f.must(json.Compact(&compact, []byte(answer)))
			if got := strings.Contains(answer, "\n  \"") && strings.HasSuffix(answer, "}\n"); got != c.lines || res.Header.Get("Content-Type") != "application/json" {
				t.Errorf("%+v: %v %q", c, res.Header, answer)
			}
			_, answer = f.do(http.MethodPost, jobsPath+"ListJobs?pretty=0", body, map[string]string{"Content-Type": "application/json"})
			f.must(json.Compact(&plain, []byte(answer)))
			if body != "{}" && compact.String() != plain.String() {
				t.Errorf("%+v: %s, want %s", c, &compact, &plain)
			}
		}
	}
	// Errors of every kind, and pages that are no JSON.
	curl := map[string]string{"User-Agent": "curl/8.5.0"}
	if _, answer := f.do(http.MethodPost, scheduleJob, "{}", curl); !strings.HasPrefix(answer, "{\n  \"code\": ") || !strings.HasSuffix(answer, "\n}\n") {
		t.Errorf("%q", answer)
	}
	if _, answer := f.do(http.MethodGet, "/status", "", curl); !strings.HasPrefix(answer, "{\n  \"version\": ") {
		t.Errorf("%q", answer)
	}
	if _, answer := f.do(http.MethodGet, "/", "", curl); !strings.HasPrefix(answer, "Fireonce\n") {
		t.Errorf("%q", answer)
	}
	if res, answer := f.do(http.MethodHead, "/", "", curl); res.StatusCode != http.StatusOK || answer != "" {
		t.Errorf("%d %q", res.StatusCode, answer)
	}
	for kind, frame := range map[string]string{"application/grpc": "\x00\x00\x00\x00\x00", "application/grpc-web+json": "\x00\x00\x00\x00\x02{}"} {
		res, answer := f.do(http.MethodPost, jobsPath+"ListJobs", frame, map[string]string{"User-Agent": "curl/8.5.0", "Content-Type": kind})
		if res.Header.Get("Content-Type") != kind || strings.Contains(answer, "\n  ") || res.Trailer.Get("Grpc-Status")+answer[max(len(answer)-20, 0):] == "" {
			t.Errorf("%s: %v %q", kind, res.Header, answer)
		}
	}
}

// TestJSONForPeopleHasNoEmptyMembers checks that a person sees each value, and few of the members that
// have none.
func TestJSONForPeopleHasNoEmptyMembers(t *testing.T) {
	t.Parallel()
	f := start(t)
	get := func(agent string) (text string, out map[string]any) {
		_, text = f.do(http.MethodPost, scheduleJob, `{"idempotencyKey": "a", "connectionId": "`+f.conn+`", "payload": {"webhook": {"url": "http://127.0.0.1/"}}}`, map[string]string{"Content-Type": "application/json", "User-Agent": agent})
		f.must(json.Unmarshal([]byte(text), &out))
		return text, out
	}
	get("the first call")
	text, short := get("curl/8.5.0")
	_, whole := get("a program")
	if !strings.HasPrefix(text, "{\n  \"job\": {\n    \"idempotencyKey\": \"a\",\n    \"state\": ") {
		t.Errorf("what matters does not come first: %s", text)
	}
	left := 0
	var compare func(path string, short, whole any)
	compare = func(path string, short, whole any) {
		all, object := whole.(map[string]any)
		if !object {
			if !reflect.DeepEqual(short, whole) {
				t.Errorf("%s: %v, want %v", path, short, whole)
			}
			return
		}
		some, _ := short.(map[string]any)
		for name, value := range all {
			if shown, ok := some[name]; ok {
				compare(path+"."+name, shown, value)
			} else if left++; !reflect.DeepEqual(value, "") && !reflect.DeepEqual(value, []any{}) && !reflect.DeepEqual(value, map[string]any{}) {
				t.Errorf("%s.%s = %v was left out", path, name, value)
			}
		}
	}
	compare("", short, whole)
	if left < 5 || strings.Contains(text, `: "",`) {
		t.Errorf("%d members were left out: %s", left, text)
	}
}
