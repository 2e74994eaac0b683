package platform

// Age makes an account's kept listings as old as a stale one must be.
func Age(p *Platform, account string) {
	a := p.account(account)
	a.staleMu.Lock()
	defer a.staleMu.Unlock()
	for query, kept := range a.stale {
		for i := range kept {
			kept[i].at = kept[i].at.Add(-staleAge)
		}
		a.stale[query] = kept
	}
}
