package node

import (
	"io/fs"
	"net/url"
	"strings"

	"github.com/fireonce/fireonce/web"

	"github.com/fireonce/fireonce/cmd/fireonce/internal/exit"
)

// noDashboard is the value of --dashboard-url that serves none.
const noDashboard = "off"

// dashboard returns the dashboard's files and where browsers see it; nil: there is none, or at the API's address.
func (c *Config) dashboard() (fs.FS, *url.URL, error) {
	if c.DashboardURL == noDashboard {
		return nil, nil, nil
	}
	files, err := web.Files()
	if err != nil || c.DashboardURL == "" {
		return files, nil, err
	}
	at, err := url.Parse(c.DashboardURL)
	wrong := err != nil || at.Scheme != "http" && at.Scheme != "https" || at.Host == "" || at.User != nil ||
		at.RawQuery != "" || at.Fragment != "" || strings.Contains(at.Path, "//")
	if wrong {
		return nil, nil, exit.Usagef("--dashboard-url %q: must be http or https, a host, and a path if a proxy adds one", c.DashboardURL)
	}
	return files, at, nil
}
