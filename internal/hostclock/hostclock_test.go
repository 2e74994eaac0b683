package hostclock

import "testing"

func TestReadings(t *testing.T) {
	first := Boot()
	if again := Boot(); first <= 0 || again < first {
		t.Errorf("the boot clock says %v, then %v", first, again)
	}
	if Wall().Year() < 2024 {
		t.Errorf("the wall clock says %v", Wall())
	}
	if id := BootID(); id != BootID() {
		t.Error("BootID has changed without a restart of the machine")
	}
	_ = Synchronized() // either answer is valid
}
