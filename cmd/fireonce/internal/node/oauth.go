package node

import (
	"github.com/fireonce/fireonce/internal/connector/builtin"
	"github.com/fireonce/fireonce/internal/oauth"
	"github.com/fireonce/fireonce/internal/seal"
)

// loadApps reads the operator's apps. A server without any renews no tokens, and holds the
// connections whose tokens have to be renewed.
func (c Config) loadApps() (*oauth.Apps, error) {
	if c.OAuthApps == "" {
		return oauth.NewApps(builtin.Platforms), nil
	}
	return oauth.LoadApps(c.OAuthApps, builtin.Platforms, c.AllowHTTP || c.Dev)
}

// openOAuth makes the client that asks platforms for tokens, and the renewer that keeps them fresh.
func (n *Node) openOAuth(apps *oauth.Apps, keys seal.Vault) (*oauth.Client, error) {
	tokens := oauth.NewClient(n.cfg.egress(), nil)
	var err error
	n.renewer, err = oauth.NewRenewer(oauth.Config{
		Apps: apps, Client: tokens, Store: n.store, Vault: keys, Log: n.cfg.Log, NewID: newID,
	})
	return tokens, err
}
