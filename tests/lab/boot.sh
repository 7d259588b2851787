#!/bin/sh
# boot.sh: run one host until it is powered off. Called in a mount namespace of its own, with
#   LAB_IMAGE (shared root), LAB_DIR (the host's folder), LAB_HOST (name), LAB_NETNS, LAB_CGROUP (lab/host)
#   and LAB_BINDS (options of systemd-nspawn, one a line).
set -eu
mount --make-rprivate /
# A plain version 2 hierarchy and an empty /run/systemd: else nspawn looks for a service manager out here.
mount -t cgroup2 none /sys/fs/cgroup
mkdir -p "/sys/fs/cgroup/$LAB_CGROUP" /run/systemd
mount -t tmpfs none /run/systemd

mkdir -p "$LAB_DIR/disk" "$LAB_DIR/root"
mount -o loop,errors=remount-ro "$LAB_DIR/disk.img" "$LAB_DIR/disk"
mkdir -p "$LAB_DIR/disk/upper" "$LAB_DIR/disk/work"
if [ -d "$LAB_DIR/seed" ]; then
    cp -a "$LAB_DIR/seed/." "$LAB_DIR/disk/upper/"
    rm -rf "$LAB_DIR/seed"
fi
mount -t overlay none "$LAB_DIR/root" \
    -o "lowerdir=$LAB_IMAGE,upperdir=$LAB_DIR/disk/upper,workdir=$LAB_DIR/disk/work"

set -- --quiet --boot --register=no --keep-unit --directory="$LAB_DIR/root" --machine="$LAB_HOST" \
    --hostname="$LAB_HOST" --network-namespace-path="/run/netns/$LAB_NETNS" --console=read-only \
    --link-journal=no --resolv-conf=off --timezone=off --kill-signal=SIGRTMIN+3
IFS='
'
for option in $LAB_BINDS; do set -- "$@" "$option"; done
unset IFS

while :; do
    code=0
    # the control group is joined first: nspawn places the host below the group it was started in
    sh -c 'echo $$ > "/sys/fs/cgroup/$LAB_CGROUP/cgroup.procs"; exec systemd-nspawn "$@"' sh "$@" || code=$?
    echo "-- $LAB_HOST ended with $code"
    [ "$code" = 133 ] || exit "$code" # 133: the host asked to be started again
done
