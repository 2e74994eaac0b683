package httpapi

import (
	"encoding/json"
	"testing"
)

// TestPointer has the examples of RFC 6901, section 5.
func TestPointer(t *testing.T) {
	const doc = `{"foo":["bar","baz"],"":0,"a/b":1,"c%d":2,"e^f":3,"g|h":4,"i\\j":5,"k\"l":6," ":7,"m~n":8}`
	for text, want := range map[string]string{
		"/foo/0": "bar", "/foo/1": "baz", "/": "0", "/a~1b": "1", "/c%d": "2", "/e^f": "3", "/g|h": "4", `/i\j`: "5", `/k"l`: "6", "/ ": "7", "/m~0n": "8",
		"": "", "/foo": "", "/foo/2": "", "/foo/-": "", "/foo/00": "", "/foo/01": "", "/foo/+1": "", "/foo/ 1": "", "/foo/0/x": "", "/none": "",
		"/foo/99999999999999999999": "",
	} {
		p, err := parsePointer(text)
		if err != nil || p.String() != text {
			t.Errorf("%q: %q, %v", text, p.String(), err)
		}
		if got, found := p.find([]byte(doc)); got != want || found != (want != "") {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
	for _, bad := range []string{"a", "a/b", "/~", "/~2", "/a~", "/\xff", "#/a"} {
		if p, err := parsePointer(bad); err == nil {
			t.Errorf("%q is read as %q", bad, []string(p))
		}
	}
	for body, want := range map[string]string{
		`{"id":12345678901234567890.10}`: "12345678901234567890.10", `{"id":1e2}`: "1e2", `{"id":"x"} trailing`: "", `{"id":"x"}{}`: "", "{": "", "": "",
		`{"id":null}`: "", `{"id":{}}`: "", `{"id":""}`: "", `{"id":"a\nb"}`: "", `{"id":"ünï"}`: "ünï",
	} {
		if got, _ := (pointer{"id"}).find([]byte(body)); got != want {
			t.Errorf("%s: %q, want %q", body, got, want)
		}
	}
}

// FuzzPointer: whatever the pointer and the answer, what is found is a string or
// number of the answer, found by a reading of its own.
func FuzzPointer(f *testing.F) {
	f.Add("/data/0/id", `{"data":[{"id":"x"}]}`)
	f.Add("/a~1b/~01", `{"a/b":{"~1":7}}`)
	f.Add("/0", `["\u00e4"]`)
	f.Add("/", `{"":"0"} }`)
	f.Fuzz(func(t *testing.T, text, body string) {
		p, err := parsePointer(text)
		if err != nil {
			return
		}
		if p.String() != text {
			t.Fatalf("%q is written as %q", text, p.String())
		}
		id, found := p.find([]byte(body))
		if found != (id != "") || len(id) > maxID {
			t.Fatalf("%q, %v", id, found)
		}
		if !found {
			return
		}
		raw := json.RawMessage(body)
		for _, token := range p {
			var object map[string]json.RawMessage
			var array []json.RawMessage
			if json.Unmarshal(raw, &object) == nil {
				raw = object[token]
			} else if json.Unmarshal(raw, &array) == nil {
				i, ok := index(token)
				if !ok || i >= len(array) {
					t.Fatalf("%q found in %q", text, body)
				}
				raw = array[i]
			}
		}
		var s string
		var n json.Number
		if json.Unmarshal(raw, &s) == nil && s == id || json.Unmarshal(raw, &n) == nil && n.String() == id {
			return
		}
		t.Fatalf("%q in %q is %q, not %q", text, body, raw, id)
	})
}
