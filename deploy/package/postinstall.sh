#!/bin/sh
# After an installation or an upgrade: the user, and the unit as systemd knows it. The
# service is not started: an operator looks at /etc/fireonce/fireonce.env first.
set -e
if command -v systemd-sysusers >/dev/null 2>&1; then
	systemd-sysusers fireonce.conf
elif ! getent passwd fireonce >/dev/null 2>&1; then
	if command -v useradd >/dev/null 2>&1; then
		useradd --system --user-group --no-create-home --home-dir /var/lib/fireonce --shell /usr/sbin/nologin fireonce
	else
		echo "fireonce: make a user fireonce before the service is started" >&2
	fi
fi
if [ -d /run/systemd/system ]; then
	systemctl daemon-reload
	# An upgrade restarts what runs, one server after another is the operator's choice.
	systemctl try-restart fireonce.service || true
fi
