package transport

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"syscall"
	"unicode"
	"unicode/utf8"
)

// Rules of this file: messages are fit for a user and for a log. A message quotes a
// target's words only cleaned, shortened and without our secrets, and an error of the
// socket only by its kind, never with addresses.

const (
	// MaxMessage bounds a message, in bytes.
	MaxMessage = 2000
	// quoteLen bounds what is quoted of an answer, in bytes.
	quoteLen = 500
	// MinSecret is the shortest text that is worth hiding; hiding shorter ones would
	// remove ordinary words.
	MinSecret = 6
)

// Clean makes a text fit for a message: valid UTF-8, one line, no control or
// format characters, at most limit bytes.
func Clean(text string, limit int) string {
	if len(text) > 4*limit+utf8.UTFMax {
		text = text[:4*limit+utf8.UTFMax]
	}
	text = strings.Map(func(r rune) rune {
		switch {
		case unicode.IsSpace(r):
			return ' '
		case r == utf8.RuneError, unicode.IsControl(r), unicode.Is(unicode.Cf, r), unicode.Is(unicode.Co, r):
			return -1
		}
		return r
	}, strings.ToValidUTF8(text, ""))
	text = strings.Join(strings.Fields(text), " ")
	if len(text) <= limit {
		return text
	}
	const dots = "…"
	cut := max(limit-len(dots), 0)
	for cut > 0 && !utf8.RuneStart(text[cut]) {
		cut--
	}
	return text[:cut] + dots
}

// excerpt quotes the beginning of an answer's body: ": words", or nothing.
func excerpt(a Response, secrets Secrets) string {
	body, cut := a.Excerpt, a.Cut
	if len(body) == 0 || a.Header.Get("Content-Encoding") != "" {
		return ""
	}
	text := secrets.quote(string(body), cut, quoteLen)
	if text == "" {
		return ""
	}
	return ": " + text
}

// Broke returns why a connection broke off, fit for a user: by kind, never with
// addresses.
func Broke(err error) string {
	var nerr net.Error
	var tlsAlert interface{ Unwrap() error }
	switch {
	case err == nil:
		return "the connection was not used"
	case errors.Is(err, ErrConnDead), errors.Is(err, ErrConnUsed),
		errors.Is(err, ErrBodyTooLarge), errors.Is(err, errHeadTooLarge):
		return err.Error()
	case errors.Is(err, ErrBadRequest):
		return Clean(err.Error(), 200)
	case errors.Is(err, syscall.ETIMEDOUT):
		return "the network went silent"
	case errors.Is(err, os.ErrDeadlineExceeded), errors.Is(err, context.DeadlineExceeded), errors.As(err, &nerr) && nerr.Timeout():
		return "out of time"
	case errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE):
		return "the connection was reset"
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return "the connection was closed"
	case errors.Is(err, net.ErrClosed):
		return "the connection was given up"
	case errors.As(err, &nerr), errors.As(err, &tlsAlert):
		return "the connection failed: " + lastCause(err)
	default:
		// net/http's error quotes the answer, which may repeat a secret, whole or in
		// part.
		return "not a readable HTTP answer"
	}
}
