package node

import (
	"context"

	"github.com/fireonce/fireonce/server"
	"github.com/fireonce/fireonce/store"
)

// maxToldPauses bounds the pauses that a start logs.
const maxToldPauses = 20

// tellPauses logs what is paused as a server starts: pauses survive restarts.
func (n *Node) tellPauses(ctx context.Context) {
	page, err := n.store.ListStops(ctx, store.StopQuery{Limit: maxToldPauses})
	if err != nil {
		n.cfg.Log.Warn("which pauses there are is not known", "err", err)
		return
	}
	for _, stop := range page.Stops {
		n.cfg.Log.Warn(server.PauseWords(stop), "pause", stop.ID.String(), "project", stop.Project, "then", "`fireonce resume PAUSE` ends it")
	}
	if page.More {
		n.cfg.Log.Warn("there are more pauses: `fireonce pauses` lists them")
	}
}
