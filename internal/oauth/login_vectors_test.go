package oauth

import (
	"encoding/hex"
	"testing"
)

// TestHashVectors holds the digests of a login's ticket. Logins that are under way across
// an upgrade depend on them. The values are those of
// printf 'fireonce login state 1\0ticket' | openssl dgst -sha256 -binary | basenc --base64url,
// and of the same with "fireonce login confirmation 1\0ticket\0code"; Mark is a hash without a
// domain.
func TestHashVectors(t *testing.T) {
	for got, want := range map[string]string{
		StateOf("ticket"):                 "LqBmLAu0MOoaMeYtgW7Esk-91tOTjP7DG2FNJ4XYpKE",
		Confirmation("ticket", "code"):    "RIVL1tjrzXHDaSeJ1oeVLV80IAipfgoV6c3vtGeRjts",
		hex.EncodeToString(Mark("state")): "4ba69735ca53765ed6a709edb56c6ea236b7193a3b29a6b390c346f0f4340e4e",
	} {
		if got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}
