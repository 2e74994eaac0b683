// Package redacttest checks that values print no secret.
package redacttest

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"
)

// Check prints and logs a value, its address, and containers of both, in every way. It fails
// the test if the output contains the secret, also in hexadecimal, in base64 or as numbers.
func Check[T any](t *testing.T, secret string, value T) {
	t.Helper()
	forms := []string{
		secret, hex.EncodeToString([]byte(secret)), strings.ToUpper(hex.EncodeToString([]byte(secret))),
		base64.StdEncoding.EncodeToString([]byte(secret))[:len(secret)], strings.Trim(fmt.Sprintf("%d", []byte(secret)), "[]"),
	}
	look := func(how, said string) {
		t.Helper()
		for _, form := range forms {
			if strings.Contains(said, form) {
				t.Errorf("%T by %s: %s", value, how, said)
				return
			}
		}
	}
	held := map[string]any{
		"value": value, "address": &value, "slice": []T{value}, "map": map[string]T{"k": value},
		"struct": struct{ Held T }{value}, "address in a struct": struct{ Held *T }{&value},
	}
	for name, v := range held {
		for verb := 'A'; verb <= 'z'; verb++ {
			if verb == 'p' || verb == 'w' {
				continue // fmt calls no method for these verbs; go vet refuses them for values that are neither pointers nor errors
			}
			for _, flags := range []string{"", "+", "#", " ", "0", "+#"} {
				format := "%" + flags + string(verb)
				look(name+" and "+format, fmt.Sprintf(format, v))
			}
		}
		look(name+" and Sprint", fmt.Sprint(v))
		if text, err := json.Marshal(v); err == nil {
			look(name+" as JSON", string(text))
		}
		var out bytes.Buffer
		for _, h := range []slog.Handler{slog.NewTextHandler(&out, nil), slog.NewJSONHandler(&out, nil)} {
			slog.New(h).With("before", v).Info("x", "attr", v, slog.Group("g", "in", v))
		}
		look(name+" logged", out.String())
	}
	look("an error", fmt.Errorf("failed with %v: %w", value, fmt.Errorf("%+v", &value)).Error())
}
