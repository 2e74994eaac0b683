package vault

import (
	"bytes"
	"encoding/hex"
	"testing"
)

// vectorKey is the vault's key of the vectors.
var vectorKey = bytes.Repeat([]byte{0x2a}, keySize)

// TestAssociatedVector holds what seals are bound to: a changed encoding opens no stored
// credential.
func TestAssociatedVector(t *testing.T) {
	const want = "02" + "0764656661756c74" + "1001020300000000000000000000000000" + "080000000000000007" +
		"086d6173746f646f6e" + "1468747470733a2f2f686f6d652e6578616d706c65" + "03616e6e"
	if got := hex.EncodeToString(here.associated()); got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

// TestKeyVectors holds what is derived from a key: its id, fingerprints, and the key that
// opens an envelope which was sealed once.
func TestKeyVectors(t *testing.T) {
	v, err := New(vectorKey)
	if err != nil {
		t.Fatal(err)
	}
	if got := v.KeyID(); got != "e5f7f36a4144ee9a" {
		t.Errorf("key id %s", got)
	}
	if got := v.Fingerprint([]byte("secret"), here.Connection); got != "3428b80b" {
		t.Errorf("fingerprint %s", got)
	}
	sealed, err := hex.DecodeString("0272fb19ddd6670220abcde07a8411dd6afdec8db4bb24d8c9e6d8a4b3109696ea53e8f4accf56" +
		"1710151ad89e49d2b06da9aedd7ec7bedb196ee751cf0e8efd1d10ecea6cdc3bcc7815bd4bf0a579b8ade7b9cd2e259dede3235c287df563")
	if err != nil {
		t.Fatal(err)
	}
	if secret, err := v.Open(sealed, v.KeyID(), here); err != nil || string(secret) != "secret" {
		t.Errorf("opened %q, %v", secret, err)
	}
}
