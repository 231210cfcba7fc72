#!/bin/sh
# A boot loader's part that RAUC talks to (bootloader-custom-backend), and with "boot" the part that starts a machine: two systems, A and B, of which one is the first, each good, bad, or with so many starts left. Every value is
# replaced whole. A file stand.WORD has it stand before, or with after.WORD behind, that word's work, until the file "reached" is gone.
cd "$(dirname "$0")/env" || exit 1
get() { cat "$1"; }
put() { echo "$2" >"$1.new" && mv "$1.new" "$1"; }
usable() { case "$(get state.$1)" in good) ;; trial) [ "$(get left.$1)" -gt 0 ] ;; *) return 1 ;; esac; }
other() { [ "$1" = A ] && echo B || echo A; }
first() {
	p=$(get primary)
	usable $p || p=$(other $p)
	usable $p && echo $p
}
stand() {
	mv "stand.$1" reached 2>/dev/null || return 0
	while [ -e reached ]; do sleep 0.02; done
}
word=$1${3:+.$3}
stand "$word"
case "$1" in
get-primary) first ;;
set-primary)
	[ -e unarmed ] || { put left.$2 3 && put state.$2 trial; } || exit 1
	put primary $2
	;;
get-state) usable $2 && echo good || echo bad ;;
set-state) put state.$2 $3 ;;
boot)
	p=$(first) || exit 1
	[ "$(get state.$p)" != trial ] || [ -e uncounted ] || put left.$p $(($(get left.$p) - 1))
	echo $p
	;;
*) exit 1 ;;
esac || exit 1
stand "after.$word"
