package tiktok

import "fmt"

// The rules of an upload (Media Transfer Guide): chunks of 5 to 64 MB, sent one
// after another; the last one takes what is left over and may have 128 MB; a file
// of up to 64 MB may be one chunk, one of less than 5 MB has to be. The guide does
// not say whether its MB has 10⁶ or 2²⁰ bytes; these keep to the rules either way.
const (
	wholeFile = 64_000_000
	chunkSize = 32_000_000
)

// chunks is how a file is cut.
type chunks struct{ size, chunk, count int64 }

func cut(size int64) chunks {
	if size <= wholeFile {
		return chunks{size: size, chunk: size, count: 1}
	}
	return chunks{size: size, chunk: chunkSize, count: size / chunkSize}
}

// part returns where chunk i begins and its length.
func (c chunks) part(i int64) (from, n int64) {
	from = i * c.chunk
	if i == c.count-1 {
		return from, c.size - from
	}
	return from, c.chunk
}

// header is the Content-Range of chunk i.
func (c chunks) header(i int64) string {
	from, n := c.part(i)
	return fmt.Sprintf("bytes %d-%d/%d", from, from+n-1, c.size)
}
