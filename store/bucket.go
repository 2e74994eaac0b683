package store

import "time"

// Bucket is a token bucket as one number, in microseconds: At is when its oldest token was
// made. Size and pace are chosen so that no minute sees more than PerMinute starts: a tenth
// of them may come together, the rest evenly.
type Bucket struct{ PerMinute, At int64 }

func (b Bucket) size() int64 { return max(1, b.PerMinute/10) }

// every is the time in which one token is made, rounded up.
func (b Bucket) every() int64 {
	n := b.PerMinute - b.size() + 1
	return (time.Minute.Microseconds() + n - 1) / n
}

// oldest returns when the oldest token that still counts was made. A bucket holds no more
// tokens than its size.
func (b Bucket) oldest(now int64) int64 { return max(b.At, now-(b.size()-1)*b.every()) }

// Tokens returns how many tokens there are at now.
func (b Bucket) Tokens(now int64) int64 {
	oldest := b.oldest(now)
	if oldest > now {
		return 0
	}
	return (now-oldest)/b.every() + 1
}

// Take returns the bucket after n of its tokens were taken at now. If none is left, At is
// when the next one is made.
func (b Bucket) Take(now, n int64) Bucket {
	b.At = b.oldest(now) + n*b.every()
	return b
}

// Repaced returns the bucket at another pace. An empty bucket gets its next token no later
// than the new pace makes one.
func (b Bucket) Repaced(now, perMinute int64) Bucket {
	b.PerMinute = perMinute
	if perMinute > 0 {
		b.At = min(b.At, now+b.every())
	}
	return b
}
