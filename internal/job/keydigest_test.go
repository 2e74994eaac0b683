package job

import (
	"encoding/hex"
	"testing"
)

// TestKeyDigest pins the encoding: stored digests depend on it. The value is that of
// printf '\0\0\0\032fireonce idempotency key 1\0\0\0\007default\0\0\0\015order-42-paid' | sha256sum.
func TestKeyDigest(t *testing.T) {
	sum := KeyDigest("default", "order-42-paid")
	if got := hex.EncodeToString(sum[:]); got != "4230d12d03b4f50965ace8de97cbc20b7ebd0ce972eb078d62d2b5f5e06a22a6" {
		t.Error(got)
	}
	if KeyDigest("ab", "c") == KeyDigest("a", "bc") {
		t.Error("project and key are not kept apart")
	}
}
