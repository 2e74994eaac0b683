package node

import (
	"github.com/fireonce/fireonce/internal/oauth"
	"github.com/fireonce/fireonce/internal/seal"
)

// loadApps reads the operator's apps. A server without any renews no tokens, and says
// so where they have to be renewed.
func (c Config) loadApps() (*oauth.Apps, error) {
	if c.OAuthApps == "" {
		return &oauth.Apps{}, nil
	}
	return oauth.LoadApps(c.OAuthApps, c.AllowHTTP || c.Dev)
}

// openOAuth makes what asks platforms for tokens, and what keeps those fresh.
func (n *Node) openOAuth(apps *oauth.Apps, keys seal.Vault) (*oauth.Client, error) {
	tokens := oauth.NewClient(n.cfg.egress(), nil)
	var err error
	n.renewer, err = oauth.NewRenewer(oauth.Config{
		Apps: apps, Client: tokens, Store: n.store, Vault: keys, Log: n.cfg.Log, NewID: newID,
	})
	return tokens, err
}
