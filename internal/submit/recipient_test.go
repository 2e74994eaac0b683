package submit

import (
	"fmt"
	"slices"
	"testing"

	"github.com/fireonce/fireonce/clients/go/fireoncev1"
	"github.com/fireonce/fireonce/store"
)

// TestRecipients checks that the stored recipients of a payload match what a filter asks for, that
// each is stored once, and that there are no more than the store accepts.
func TestRecipients(t *testing.T) {
	many := make([]string, 50)
	for i := range many {
		many[i] = fmt.Sprintf("to-%d@example.com", i)
	}
	for name, tt := range map[string]struct {
		payload *fireoncev1.Payload
		want    []string
	}{
		"an e-mail": {&fireoncev1.Payload{Kind: &fireoncev1.Payload_Email{Email: &fireoncev1.Email{
			Sender: "me@example.com", To: []string{"Ann <Ann@example.com>"}, Cc: []string{"bob@example.com", "ANN@EXAMPLE.COM"}, Bcc: []string{"eve@example.com"},
		}}}, []string{"ann@example.com", "bob@example.com", "eve@example.com"}},
		"a direct message": {&fireoncev1.Payload{Kind: &fireoncev1.Payload_DirectMessage{DirectMessage: &fireoncev1.DirectMessage{RecipientId: "U0Ann"}}}, []string{"U0Ann"}},
		"a webhook":        {&fireoncev1.Payload{Kind: &fireoncev1.Payload_Webhook{}}, nil},
		"none":             {nil, nil},
	} {
		got := Recipients(tt.payload)
		if !slices.Equal(got, tt.want) {
			t.Errorf("%s: %q, want %q", name, got, tt.want)
		}
		for _, who := range got {
			if Recipient(who) != who {
				t.Errorf("%s: %q is not found by itself", name, who)
			}
		}
	}
	full := &fireoncev1.Email{To: many, Cc: make([]string, 50), Bcc: make([]string, 50)}
	for i := range 50 {
		full.Cc[i], full.Bcc[i] = "cc-"+many[i], "bcc-"+many[i]
	}
	if got := Recipients(&fireoncev1.Payload{Kind: &fireoncev1.Payload_Email{Email: full}}); len(got) != store.MaxRecipients {
		t.Errorf("%d recipients, want %d", len(got), store.MaxRecipients)
	}
}
