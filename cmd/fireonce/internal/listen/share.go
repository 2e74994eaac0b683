package listen

import (
	"math/rand/v2"
	"strconv"
	"strings"

	"github.com/fireonce/fireonce/cmd/fireonce/internal/exit"
)

// share selects the requests that a flag affects.
type share struct {
	// first: the first request with each key.
	first bool
	// percent is the random share of all requests.
	percent float64
}

// shareOf parses a flag: "first", "30%" or "30". Empty: no request.
func shareOf(flag, text string) (share, error) {
	switch text {
	case "":
		return share{}, nil
	case "first":
		return share{first: true}, nil
	}
	percent, err := strconv.ParseFloat(strings.TrimSuffix(text, "%"), 64)
	if err != nil || !(percent >= 0 && percent <= 100) {
		return share{}, exit.Usagef("--%s %q: must be 0%% to 100%%, or first", flag, text)
	}
	return share{percent: percent}, nil
}

// takes reports whether the share includes a request.
func (s share) takes(first bool) bool {
	return s.first && first || rand.Float64()*100 < s.percent //nolint:gosec // chance, no secret
}
