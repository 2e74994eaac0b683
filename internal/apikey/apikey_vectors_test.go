package apikey

import (
	"encoding/hex"
	"testing"
)

// TestHashVector holds the form of keys, their checksum, and the hash that stores keep. The
// hash is that of printf KEY | sha256sum.
func TestHashVector(t *testing.T) {
	const text = "fo_0123456789abcdef_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8" + "95bTbg"
	k, err := Parse(text)
	if err != nil {
		t.Fatalf("%v; the checksum is %s", err, sum(text[:length-6]))
	}
	hash := k.Hash()
	if got := hex.EncodeToString(hash[:]); k.ID != "0123456789abcdef" || k.Reveal() != text || got != "16e1b077d7f806b9dc99ae7203d9a6fb1e620f0c70c4677f425ee4ccea0980d5" {
		t.Errorf("id %s, hash %s", k.ID, got)
	}
}
