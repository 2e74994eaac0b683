package listen

import (
	"io"
	"net/http"
	"sync"
)

// maxInbox is how much of what arrived an inbox shows, in bytes.
const maxInbox = 64 << 10

// NewInbox returns the receiver of `fireonce serve --dev`: it acts once for each key, as `fireonce listen` does,
// and prints what arrives. A GET without a key shows the last of it.
func NewInbox(w io.Writer) http.Handler {
	shown := &inbox{}
	rc := &receiver{keys: newMemory(maxKeys), out: &printer{w: io.MultiWriter(w, shown), notes: w}}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, key := keyOf(r.Header); r.Method == http.MethodGet && key == "" {
			w.Header().Set("Content-Type", "text/plain; charset=utf-8")
			_, _ = w.Write(shown.read()) // fails only if the client is gone
			return
		}
		rc.ServeHTTP(w, r)
	})
}

// inbox keeps the end of a text.
type inbox struct {
	mu   sync.Mutex
	text []byte
}

// Write implements io.Writer.
func (i *inbox) Write(text []byte) (int, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.text = append(i.text, text...)
	if more := len(i.text) - maxInbox; more > 0 {
		i.text = append(i.text[:0], i.text[more:]...)
	}
	return len(text), nil
}

// read returns a copy of the text.
func (i *inbox) read() []byte {
	i.mu.Lock()
	defer i.mu.Unlock()
	if len(i.text) == 0 {
		return []byte("Nothing has arrived yet.\n")
	}
	return append([]byte(nil), i.text...)
}
