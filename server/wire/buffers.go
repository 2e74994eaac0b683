package wire

import (
	"math/bits"
	"sync"
)

// Rules of this file: buffers for messages are used again. What requests may hold is
// bounded, but buffers that are thrown away stay in memory until the collector comes by,
// and a crowd of large requests is faster than the collector.

const (
	// leastBuffer and mostBuffer are the sizes of the smallest and of the largest buffer
	// that is kept, as powers of two. Between them is one kind for each power.
	leastBuffer = 12
	mostBuffer  = 25
)

var bufferPools [mostBuffer + 1]sync.Pool

// GetBuffer returns an empty buffer with a capacity of size bytes at least.
func GetBuffer(size int) []byte {
	kind := max(leastBuffer, bits.Len(uint(max(size, 1)-1)))
	if kind > mostBuffer {
		return make([]byte, 0, size)
	}
	if b, ok := bufferPools[kind].Get().(*[]byte); ok {
		return (*b)[:0]
	}
	return make([]byte, 0, 1<<kind)
}

// PutBuffer takes a buffer back, of which nothing may be in use any more.
func PutBuffer(b []byte) {
	kind := bits.Len(uint(cap(b))) - 1
	if kind >= leastBuffer && kind <= mostBuffer && cap(b) == 1<<kind {
		bufferPools[kind].Put(&b)
	}
}
