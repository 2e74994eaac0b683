package job

import (
	"errors"
	"slices"
	"testing"
)

// TestUpdateFieldsByState tries every set of fields in every state. A set may change where
// each of its fields may, and the error names the fields that may not.
func TestUpdateFieldsByState(t *testing.T) {
	may := func(s State, f Fields) bool {
		_, err := Decide(waiting(s), UpdateAsked{Fields: f})
		return err == nil
	}
	for _, s := range States {
		for asked := Fields(1); asked <= AllFields; asked++ {
			var refused Fields
			for f := FieldPayload; f <= FieldTimeZone; f <<= 1 {
				if asked&f != 0 && !may(s, f) {
					refused |= f
				}
			}
			d, err := Decide(waiting(s), UpdateAsked{Fields: asked})
			var state *StateError
			switch {
			case refused == 0 && (err != nil || d.To != s || d.Cause != CauseUpdated || d.Delay != KeepDelay):
				t.Errorf("%s, %v: %+v, %v", s, asked.Names(), d, err)
			case refused != 0 && (!errors.As(err, &state) || state.Fields != refused || slices.Contains(state.Allowed, s)):
				t.Errorf("%s, %v: %v; want a refusal of %v", s, asked.Names(), err, refused.Names())
			case refused != 0:
				for _, other := range States {
					if _, err := Decide(waiting(other), UpdateAsked{Fields: asked}); slices.Contains(state.Allowed, other) != (err == nil) {
						t.Errorf("%s, %v: allowed in %v, but in %s: %v", s, asked.Names(), state.Allowed, other, err)
					}
				}
			}
		}
	}
	if got := AllFields.Names(); len(got) != len(fieldNames) {
		t.Errorf("all fields are %v", got)
	}
}
