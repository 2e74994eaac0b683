package server_test

import (
	"testing"

	"buf.build/go/protovalidate"

	"github.com/fireonce/fireonce/internal/proof/fastpath"
	"github.com/fireonce/fireonce/server"
)

// BenchmarkPathPlain: the fast path checks requests of the common form at a small part of the
// cost of the contract's rules.
func BenchmarkPathPlain(b *testing.B) {
	rules, err := protovalidate.New()
	if err != nil {
		b.Fatal(err)
	}
	const requests = 500
	r := plainRequest()
	judge := func() {
		if err := rules.Validate(r); err != nil {
			b.Fatal(err)
		}
	}
	fastpath.Worth(b, 4, func(int) {
		for range requests {
			if !server.FastPathValid(r) {
				judge()
			}
		}
	}, func(int) {
		for range requests {
			judge()
		}
	})
}
