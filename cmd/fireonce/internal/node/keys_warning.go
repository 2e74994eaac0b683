package node

import (
	"context"
	"time"

	"github.com/fireonce/fireonce/internal/sleep"
	"github.com/fireonce/fireonce/store"
)

// warnEvery is the longest pause between two reads for a warning.
const warnEvery = time.Minute

// warnOfKeys warns that API keys guard nothing where calls need none, and that every call fails
// where one is required and none exists. It runs beside the server's work, and reads again until
// the database answers.
func (n *Node) warnOfKeys(ctx context.Context) {
	if n.cfg.APIKey != "" {
		return
	}
	for pause := firstPause; ; pause = min(2*pause, warnEvery) {
		keys, err := n.store.ListAPIKeys(ctx, "", "", 1)
		if err == nil {
			n.warnOf(keys)
			return
		}
		if !sleep.For(ctx, pause) {
			return
		}
	}
}

func (n *Node) warnOf(keys []store.APIKey) {
	switch {
	case len(keys) == 0 && n.cfg.RequireAPIKey:
		n.cfg.Log.Warn("every call needs an API key, and there is none: make the first one with `fireonce apikeys create --database`, " +
			"on SQLite while no server runs, or set FIREONCE_API_KEY")
	case len(keys) > 0 && !n.cfg.RequireAPIKey:
		n.cfg.Log.Warn("there are API keys, and calls without one may do everything in the default project: see --require-api-key")
	}
}
