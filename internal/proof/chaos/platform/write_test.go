package platform

import (
	"errors"
	"os"
	"path/filepath"
	"sync"
	"testing"
)

// TestLogOrder: what was waited for is in the file, in the order of the tickets.
func TestLogOrder(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	l, err := createLog(path)
	if err != nil {
		t.Fatal(err)
	}
	const writers, each = 20, 50
	var all sync.WaitGroup
	for range writers {
		all.Go(func() {
			for range each {
				if err := l.wait(l.append(Record{Type: TypeLook})); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	if l.synced != writers*each || l.last() != writers*each {
		t.Errorf("%d of %d are durable", l.synced, l.last())
	}
	n := 0
	for _, err := range ReadLog(path) {
		if err != nil {
			t.Fatal(err)
		}
		n++
	}
	if err := l.close(); err != nil || n != writers*each {
		t.Errorf("%d lines, %v", n, err)
	}
	if err := l.wait(l.append(Record{})); !errors.Is(err, errClosed) {
		t.Errorf("after the end: %v", err)
	}
}

// TestFullDisk: a wait for what cannot be durable ends, and nothing
// after it counts as durable.
func TestFullDisk(t *testing.T) {
	l, err := createLog(filepath.Join(t.TempDir(), "log"))
	if err != nil {
		t.Fatal(err)
	}
	if err := l.file.Close(); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := l.wait(l.append(Record{})); !errors.Is(err, os.ErrClosed) {
			t.Errorf("%v", err)
		}
	}
	<-l.broken
	if l.synced != 0 || l.close() == nil {
		t.Errorf("%d records are durable", l.synced)
	}
}
