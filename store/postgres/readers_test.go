//go:build unix

package postgres

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/fireonce/fireonce/store"
)

// TestReadersLeaveRoom: as many slow reads as there are connections do not delay work.
func TestReadersLeaveRoom(t *testing.T) {
	f := newFleet(t, 1)
	s := f.stores[0]
	conn := f.connect()
	begun, end := make(chan struct{}, s.pool.Config().MaxConns), make(chan struct{})
	var readers sync.WaitGroup
	for range s.pool.Config().MaxConns {
		readers.Go(func() {
			_, err := readOne(context.Background(), s, "slow read", func(context.Context, view) (struct{}, error) {
				begun <- struct{}{}
				<-end
				return struct{}{}, nil
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
	defer readers.Wait()
	defer close(end)
	for range cap(s.readers) {
		<-begun
	}
	stored := make(chan error, 1)
	go func() {
		_, err := s.Create(context.Background(), []store.NewJob{newSpec(conn)})
		stored <- err
	}()
	select {
	case err := <-stored:
		if err != nil {
			t.Fatal(err)
		}
	case <-time.After(20 * time.Second):
		t.Fatal("nothing can be written while slow reads are under way")
	}
}
