//go:build unix

package pgtest

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5"
)

func TestApartSharesNoServer(t *testing.T) {
	prepare := func(context.Context, string) error { return nil }
	host := func(t *testing.T, u string) string {
		t.Helper()
		config, err := pgx.ParseConfig(u)
		if err != nil {
			t.Fatal(err)
		}
		return config.Host
	}
	var outer, inner string
	t.Run("one", func(t *testing.T) {
		first, second := Apart(t, prepare), Apart(t, prepare)
		outer = host(t, first)
		if first == second || host(t, second) != outer {
			t.Errorf("%s and %s: want two databases of one server", first, second)
		}
		t.Run("beside it", func(t *testing.T) { inner = host(t, Apart(t, prepare)) })
		if inner == outer {
			t.Errorf("%s serves two tests", inner)
		}
	})
	t.Run("next", func(t *testing.T) {
		if next := host(t, Apart(t, prepare)); next != outer && next != inner {
			t.Errorf("%s is a third server", next)
		}
	})
}
