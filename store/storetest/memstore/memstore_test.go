package memstore_test

import (
	"testing"
	"time"

	"github.com/fireonce/fireonce/store"
	"github.com/fireonce/fireonce/store/storetest"
	"github.com/fireonce/fireonce/store/storetest/memstore"
)

func TestConformance(t *testing.T) {
	storetest.Run(t, func(_ *testing.T, now func() time.Time) store.Store {
		return memstore.Open(memstore.Options{Now: now})
	})
}
