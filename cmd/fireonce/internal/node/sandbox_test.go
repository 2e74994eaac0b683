package node

import (
	"net/netip"
	"strings"
	"testing"
)

// TestSandboxReachesNothing: what is waited for in a sandbox would make duplicates on a real
// platform, so that a configuration which could reach one is refused.
func TestSandboxReachesNothing(t *testing.T) {
	fakes := func() map[string]string {
		out := make(map[string]string)
		for _, name := range movable() {
			out[name] = "http://127.0.0.1:8091"
		}
		return out
	}
	whole := Config{Sandbox: true, Dev: true, PlatformURLs: fakes()}
	if err := whole.checkSandbox(); err != nil {
		t.Error(err)
	}
	for what, change := range map[string]func(*Config){
		"no development mode":     func(c *Config) { c.Dev = false },
		"a connector elsewhere":   func(c *Config) { c.Connectors = "connectors.json" },
		"a platform without fake": func(c *Config) { delete(c.PlatformURLs, "x") },
		"a gateway to a platform": func(c *Config) { c.PlatformURLs["x"] = "https://gateway.example" },
	} {
		c := whole
		c.PlatformURLs = fakes()
		change(&c)
		if err := c.checkSandbox(); err == nil || !strings.Contains(err.Error(), "sandbox") {
			t.Errorf("%s: %v", what, err)
		}
	}
	if err := whole.egress().Check(netip.MustParseAddr("1.1.1.1")); err == nil {
		t.Error("a sandbox reaches public addresses")
	}
}
