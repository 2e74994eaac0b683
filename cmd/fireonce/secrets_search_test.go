package main

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"net/url"
	"os"
	"path/filepath"
	"strings"
)

// files reads an SQLite database and the files beside it, except the key.
func (s *spill) files(path string) map[string]string {
	out := make(map[string]string)
	all, err := filepath.Glob(path + "*")
	if err != nil {
		s.t.Fatal(err)
	}
	for _, file := range all {
		text, err := os.ReadFile(file)
		if err != nil {
			s.t.Fatal(err)
		}
		out[filepath.Base(file)] = string(text)
	}
	return out
}

func (s *spill) database() {
	for name, text := range s.dump() {
		s.said(name+" afterwards", text)
	}
}

// forms returns the forms in which a secret may be written: plain, escaped, in base64 at
// each offset in the encoded data, in hexadecimal, and one within another.
func forms(secret string) []string {
	out := []string{secret, url.QueryEscape(secret), url.PathEscape(secret)}
	for shift := range 3 {
		for _, enc := range []*base64.Encoding{base64.RawStdEncoding, base64.RawURLEncoding} {
			text := enc.EncodeToString(append(bytes.Repeat([]byte{0}, shift), secret...))
			// The first and the last characters depend on the bytes around the secret.
			out = append(out, text[(8*shift+5)/6:len(text)-1])
		}
	}
	for _, text := range out {
		out = append(out, hex.EncodeToString([]byte(text)), strings.ToUpper(hex.EncodeToString([]byte(text))))
	}
	return out
}

// leak returns the part of a text that has a secret, with its surroundings; empty: there is
// none.
func leak(secret, text string) string {
	const around = 80
	for _, form := range forms(secret) {
		if at := strings.Index(text, form); at >= 0 {
			return text[max(0, at-around):min(len(text), at+len(form)+around)]
		}
	}
	return ""
}

// search searches every output for every secret.
func (s *spill) search() {
	sent := ""
	for _, e := range s.targets {
		if e.sent() == "" {
			s.t.Errorf("the target %q got nothing", e.name)
		}
		sent += e.sent()
	}
	secrets := s.secrets()
	for _, name := range []string{"bearer", "password", "api key", "header", "cookie", "feed"} {
		if leak(secrets[name], sent) == "" {
			s.t.Errorf("no target got the secret %q: what does this test?", name)
		}
	}
	looked := 0
	for where, text := range s.places {
		if strings.HasPrefix(where, "\x00") {
			continue
		}
		looked++
		for name, secret := range secrets {
			if found := leak(secret, text); found != "" {
				s.t.Errorf("%s: the secret %q is there: %q", where, name, found)
			}
		}
	}
	for _, where := range []string{"GetJob", "fireonce get"} {
		if !strings.Contains(s.places[where], inTheOpen) {
			s.t.Errorf("%s: what is no secret is not there either", where)
		}
	}
	inDump := false
	for where, text := range s.places {
		inDump = inDump || strings.HasSuffix(where, "afterwards") && leak(inTheOpen, text) != ""
	}
	if looked < 20 || !inDump {
		s.t.Errorf("%d places; the payload is in the database: %t", looked, inDump)
	}
}
