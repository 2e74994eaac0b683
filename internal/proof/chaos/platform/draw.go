package platform

import "hash/fnv"

// What is drawn for one request, each by itself.
const (
	drawFault uint64 = iota + 1
	drawTime
	drawLag
	drawStatus
)

// draw returns a number in [0, 1) for one request, the same in each run with this
// seed: whatever the order in which requests come, what becomes of one depends
// on nothing but the seed, its face, its subject and its number.
func draw(seed uint64, face, subject string, number int, what uint64) float64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(face))
	_, _ = h.Write([]byte{0})
	_, _ = h.Write([]byte(subject))
	x := h.Sum64() ^ mix(seed) ^ mix(uint64(number)<<8|what)
	return float64(mix(x)>>11) / (1 << 53)
}

// mix is the finaliser of SplitMix64: each bit of the input changes about half
// of the output's.
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
