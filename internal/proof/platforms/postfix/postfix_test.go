package postfix

import (
	"testing"

	"github.com/fireonce/fireonce/internal/connector/smtp/smtptest"
)

// TestSomebodyElse: where a port cannot be held, one that was free a moment ago may be
// another relay's by now. It is not taken for the instance that could not have it.
func TestSomebodyElse(t *testing.T) {
	other, err := smtptest.Start(smtptest.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { other.Close() })
	ended := make(chan struct{})
	close(ended)
	s := Server{addr: other.Addr(), name: "relay-1.test"}
	if s.answers(ended) {
		t.Error("another relay was taken for the instance")
	}
	s.name = "relay.test"
	if !s.answers(ended) {
		t.Error("one that greets in its name was not taken for it")
	}
}
