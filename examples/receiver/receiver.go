package main

import (
	"context"
	"database/sql"
	"fmt"
	"io"
	"net/http"
)

// maxBody bounds a webhook's body, in bytes.
const maxBody = 1 << 20

// receiver answers webhooks. Its status is what the sender needs to know: 2xx means
// done (now or before), 4xx means refused without effect, and 5xx leaves it open.
type receiver struct {
	verify *verifier
	events *events
	out    io.Writer
}

func (rc *receiver) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodPost {
		http.Error(w, "POST only", http.StatusMethodNotAllowed)
		return
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if err != nil {
		http.Error(w, "the body is too large or broke off", http.StatusRequestEntityTooLarge)
		return
	}
	id, err := rc.verify.check(r.Header, body)
	if err != nil {
		rc.say("refused    %v\n", err)
		http.Error(w, err.Error(), http.StatusUnauthorized)
		return
	}
	first, err := rc.events.once(r.Context(), id, func(ctx context.Context, tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, `INSERT INTO deliveries (body) VALUES (?)`, body) // your effect goes here
		return err
	})
	switch {
	case err != nil:
		rc.say("failed     %s: %v\n", id, err)
		http.Error(w, "could not process the event", http.StatusInternalServerError)
	case first:
		rc.say("processed  %s (%d bytes)\n", id, len(body))
		_, _ = io.WriteString(w, "processed\n")
	default:
		rc.say("duplicate  %s, not done again\n", id)
		_, _ = io.WriteString(w, "processed before\n")
	}
}

func (rc *receiver) say(format string, args ...any) { _, _ = fmt.Fprintf(rc.out, format, args...) }
