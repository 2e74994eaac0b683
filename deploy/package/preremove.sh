#!/bin/sh
# Before the package is removed: stop the service. Its data and its user stay. An upgrade
# comes by here too (deb: "upgrade", rpm: 1) and stops nothing.
set -e
case "${1:-}" in
upgrade | 1) exit 0 ;;
esac
if [ -d /run/systemd/system ]; then
	systemctl disable --now fireonce.service || true
fi
