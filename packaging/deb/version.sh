#!/bin/sh
# Prints the Debian version of the tree, or of VERSION (git describe) as $1 and the number of commits as $2.
#   v1.2.3              1.2.3               a release
#   v1.3.0-rc.1         1.3.0~rc.1          sorts below 1.3.0
#   v1.2.3-14-gabc…     1.2.3+14.gabc…      sorts above 1.2.3 and below 1.2.4
#   abc… (no tag yet)   0~745.gabc…         sorts by the number of commits, and below every release
# -dirty becomes +dirty: above the commit that it began from.
set -eu
cd "$(dirname "$0")/../.."
describe=${1:-$(git describe --tags --always --dirty --abbrev=12 2>/dev/null || echo unknown)}
count=${2:-$(git rev-list --count HEAD 2>/dev/null || echo 0)}
dirty=
case $describe in *-dirty) dirty=+dirty describe=${describe%-dirty} ;; esac
case $describe in
v[0-9]*)
	describe=${describe#v}
	since=
	if expr "$describe" : '.*-[0-9][0-9]*-g[0-9a-f][0-9a-f]*$' >/dev/null; then
		commit=${describe##*-}
		rest=${describe%-*}
		since=+${rest##*-}.$commit
		describe=${rest%-*}
	fi
	# What stands behind the first - is a pre-release.
	case $describe in *-*) describe=${describe%%-*}~$(printf %s "${describe#*-}" | tr - .) ;; esac
	echo "$describe$since$dirty"
	;;
*) echo "0~$count.g$describe$dirty" ;;
esac
