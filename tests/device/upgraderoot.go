package device

// What the root disk has for upgrades: a shell that the host gives commands, the program that upgrades bring, and what tells how a power cut has left an upgrade.

// upgradable is the config's part that lets weir be upgraded.
const upgradable = `fleet: {root: /etc/weir/fleet/root.json}
upgrade: {backend: self, probation: 0s}
`

// Where the machine finds the host's commands, and what it has for them.
const (
	commandPort = "7000"
	plantDir    = "/var/lib/weir-files"
	nextFile    = "/opt/device/next"      // the program of the upgrade under way
	nextBase    = "/opt/device/next-base" // the same but for its last bytes
	faultHelper = "/opt/device/weir-boot-faulty"
)

// upgradeUnit is the operator's drop-in. A program on trial with planted faults may pass as soon as it has shown all that it must; the release knows nothing of these settings.
const upgradeUnit = `[Service]
Environment=WEIR_TRIAL=100ms WEIR_BOOT_FAULT=no-sync WEIR_PLANT=` + plantDir + `
`

// lateWrites: the kernel writes nothing by itself, so that what is not synced is there to be lost.
const lateWrites = `vm.dirty_expire_centisecs = 360000
vm.dirty_writeback_centisecs = 0
vm.dirty_background_ratio = 60
vm.dirty_ratio = 80
`

// commandScript carries out what the host says, line by line.
const commandScript = `while ! exec 3<>/dev/tcp/` + guestIP + `/` + commandPort + `; do sleep 0.5; done
while IFS= read -r line <&3; do
	out=$(eval "$line" 2>&1 </dev/null)
	code=$?
	printf '%s\n` + commandEnd + `%s\n' "$out" "$code" >&3
done
`

// commandEnd begins the line behind what a command prints.
const commandEnd = "DEVICE-COMMAND-ENDED "

const commandUnit = `[Unit]
Description=does what the test says
ConditionKernelCommandLine=!device.install
StartLimitIntervalSec=0
[Service]
ExecStart=/bin/bash /opt/device/command.sh
Restart=always
RestartSec=1
[Install]
WantedBy=multi-user.target
`

// composeScript makes the program with a number, broken in a way: as the test does on the host. For one that is never ready systemd waits a minute, not ten. One that takes all memory is not
// slowed down before it has it (MemoryHigh), which on this machine would be minutes as well.
const composeScript = `set -e
dropin() {
	mkdir -p /run/systemd/system/weir.service.d
	printf '[Service]\n%s\n' "$1" >/run/systemd/system/weir.service.d/bad.conf
	systemctl daemon-reload
}
case "$2" in
silent) dropin TimeoutStartSec=60 ;;
hungry) dropin MemoryHigh=infinity ;;
esac
{ cat ` + nextBase + ` && printf '` + nextEnd + `' "$1" "$2"; } >` + nextFile + `.tmp && chmod 755 ` + nextFile + `.tmp && mv ` + nextFile + `.tmp ` + nextFile + `
`

// nextEnd are the last bytes of a program: its number, and how it is broken (agent/fault_weirfault.go, plantedBad).
const nextEnd = "\nprogram %s bad=%s\n"

// foundUnit tells, before anything of weir runs, how a power cut has left slots and record. The file that is upgraded to is there again: the root disk is as new.
const foundUnit = `[Unit]
Description=tells the test what a power cut has left of an upgrade
ConditionKernelCommandLine=!device.install
RequiresMountsFor=/var/lib/weir /var/lib/weir-boot
Before=weir.service
[Service]
Type=oneshot
TimeoutStartSec=infinity
ExecStart=/bin/sh /opt/device/found.sh
[Install]
WantedBy=multi-user.target
`

const foundScript = `exec >/dev/ttyAMA0 2>&1
say() { read up rest </proc/uptime; echo; echo DEVICE $up "$@"; }
program= bad=
read -r line </proc/cmdline
for word in $line; do
	case $word in
	device.program=*) program=${word#*=} ;;
	device.bad=*) bad=${word#*=} ;;
	esac
done
[ -z "$program" ] || sh /opt/device/compose.sh "$program" "$bad"
for s in a b; do
	dir=/var/lib/weir-boot/slots/$s
	[ ! -e $dir/about.json ] || say slot $s $(sha256sum <$dir/weir | cut -c1-64) $(base64 -w0 $dir/about.json)
done
for i in 0 1; do
	rec=/var/lib/weir/upgrade/rec.$i
	[ ! -e $rec ] || say record $i $(gzip -c $rec | base64 -w0)
done
`

// faultUnit puts a helper with planted faults into the place of the package's.
const faultUnit = `[Unit]
Description=plants a fault
ConditionKernelCommandLine=device.fault
Before=weir.service
[Service]
Type=oneshot
ExecStart=/bin/mount --bind ` + faultHelper + ` /usr/lib/weir/weir-boot
[Install]
WantedBy=multi-user.target
`

// upgradeFiles are what the root disk has for upgrades.
var upgradeFiles = map[string]string{
	"etc/sysctl.d/device.conf":                       lateWrites,
	"etc/systemd/system/weir.service.d/upgrade.conf": upgradeUnit,
	"etc/systemd/system/device-command.service":      commandUnit,
	"etc/systemd/system/device-found.service":        foundUnit,
	"etc/systemd/system/device-fault.service":        faultUnit,
	"opt/device/command.sh":                          commandScript,
	"opt/device/compose.sh":                          composeScript,
	"opt/device/found.sh":                            foundScript,
}
