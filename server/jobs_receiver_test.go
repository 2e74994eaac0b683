package server

import "testing"

// TestReceiverOf: targets that drop each other's duplicates are one receiver, and targets that
// may be one are not two.
func TestReceiverOf(t *testing.T) {
	one := func(connector, hold string) string {
		t.Helper()
		got := receiverOf(connector, hold)
		if got == "" {
			t.Errorf("%s has no name", hold)
		}
		return got
	}
	for _, same := range [][]string{
		{"https://h", "http://h", "https://h:80", "http://h:443", "https://h.", "http://h.:443"},
		{"https://h:8443", "http://h:8443", "http://h.:8443"},
		{"https://[2001:db8::1]", "http://[2001:db8::1]", "http://[2001:db8::1]:443"},
		{"https://192.0.2.1", "http://192.0.2.1"},
	} {
		for _, hold := range same[1:] {
			if one("http", hold) != one("webhook", same[0]) {
				t.Errorf("%s and %s are two receivers: %s, %s", same[0], hold, one("http", hold), one("webhook", same[0]))
			}
		}
	}
	seen := map[string]string{}
	for _, hold := range []string{
		"https://h", "https://other.h", "https://h:8443", "https://h:8080", "https://[2001:db8::1]", "https://[2001:db8::1]:8443",
		"https://192.0.2.1",
	} {
		if before, ok := seen[one("http", hold)]; ok {
			t.Errorf("%s and %s are one receiver", before, hold)
		}
		seen[one("http", hold)] = hold
	}
	if one("mastodon", accountHold) == one("resend", accountHold) {
		t.Error("two platforms are one receiver")
	}
}
