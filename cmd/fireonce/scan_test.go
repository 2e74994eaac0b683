package main

import (
	"encoding/xml"
	"os/exec"
	"strings"
	"testing"

	"github.com/fireonce/fireonce/cmd/fireonce/internal/certs/certstest"
)

// scan is the output of sslscan.
type scan struct {
	Test []struct {
		Protocols []struct {
			Type    string `xml:"type,attr"`
			Version string `xml:"version,attr"`
			Enabled int    `xml:"enabled,attr"`
		} `xml:"protocol"`
		Ciphers []struct {
			Version  string `xml:"sslversion,attr"`
			Name     string `xml:"cipher,attr"`
			Bits     int    `xml:"bits,attr"`
			Strength string `xml:"strength,attr"`
		} `xml:"cipher"`
		Heartbleed []struct {
			Vulnerable int `xml:"vulnerable,attr"`
		} `xml:"heartbleed"`
		Renegotiation struct {
			Supported int `xml:"supported,attr"`
			Secure    int `xml:"secure,attr"`
		} `xml:"renegotiation"`
		Compression struct {
			Supported int `xml:"supported,attr"`
		} `xml:"compression"`
	} `xml:"ssltest"`
}

// TestTLSScan scans both ports with sslscan. They must offer only TLS 1.2 and 1.3, no weak
// cipher, and none without forward secrecy.
func TestTLSScan(t *testing.T) {
	long(t)
	t.Parallel()
	program, err := exec.LookPath("sslscan")
	if err != nil {
		t.Skip("sslscan is not installed: .ci/need-sslscan installs it on Debian (apt-get install sslscan)")
	}
	s := startSecured(t, certstest.Leaf{})
	for port, address := range map[string]string{"main": strings.TrimPrefix(s.url, "https://"), "gRPC": s.grpc} {
		t.Run(port, func(t *testing.T) {
			t.Parallel()
			out, err := exec.CommandContext(waiting(t), program, "--xml=-", "--no-colour", address).Output()
			if err != nil {
				t.Fatal(err)
			}
			var found scan
			if err := xml.Unmarshal(out, &found); err != nil || len(found.Test) != 1 {
				t.Fatalf("%v\n%s", err, out)
			}
			judgeScan(t, found, out)
		})
	}
}

func judgeScan(t *testing.T, found scan, out []byte) {
	t.Helper()
	test, enabled := found.Test[0], map[string]bool{}
	for _, p := range test.Protocols {
		if p.Enabled != 0 {
			enabled[p.Type+" "+p.Version] = true
		}
	}
	if len(enabled) != 2 || !enabled["tls 1.2"] || !enabled["tls 1.3"] {
		t.Errorf("it speaks %v", enabled)
	}
	if len(test.Protocols) < 6 || len(test.Ciphers) < 4 || len(test.Heartbleed) == 0 {
		t.Fatalf("the scanner has not looked:\n%s", out)
	}
	for _, c := range test.Ciphers {
		forward := c.Version == "TLSv1.3" || strings.HasPrefix(c.Name, "ECDHE-")
		if c.Bits < 128 || !forward || c.Strength != "strong" && c.Strength != "acceptable" {
			t.Errorf("%s %s has %d bits, and is %s", c.Version, c.Name, c.Bits, c.Strength)
		}
	}
	for _, h := range test.Heartbleed {
		if h.Vulnerable != 0 {
			t.Error("Heartbleed")
		}
	}
	if test.Compression.Supported != 0 || test.Renegotiation.Supported != 0 && test.Renegotiation.Secure == 0 {
		t.Errorf("compression %+v, renegotiation %+v", test.Compression, test.Renegotiation)
	}
}
