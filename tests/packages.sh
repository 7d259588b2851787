#!/usr/bin/env bash
# Install the Debian packages of the tests that are missing here; without root or apt, say which tests will be skipped.
# With names of programs: only what provides those.
set -euo pipefail

declare -A provides=(
    [mmdebstrap]=mmdebstrap [systemd-nspawn]=systemd-container [ip]=iproute2 [ssh-keygen]=openssh-client
    [sshd]=openssh-server [mkfs.ext4]=e2fsprogs [iptables]=iptables [ethtool]=ethtool [prometheus]=prometheus [chromium]=chromium
)
missing=()
for program in "${@:-${!provides[@]}}"; do
    PATH=$PATH:/usr/sbin:/sbin command -v "$program" >/dev/null || missing+=("${provides[$program]}")
done
[ ${#missing[@]} = 0 ] && exit 0
if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
    echo "not installed: ${missing[*]}; the tests that need them will say so and be skipped" >&2
    exit 0
fi
export DEBIAN_FRONTEND=noninteractive
# a package that brings a server must not start it: the tests start their own
policy=/usr/sbin/policy-rc.d
if [ ! -e "$policy" ]; then
    trap 'rm -f "$policy"' EXIT
    printf '#!/bin/sh\nexit 101\n' >"$policy"
    chmod 755 "$policy"
fi
apt-get update -qq
apt-get install -y -qq --no-install-recommends -o DPkg::Lock::Timeout=300 "${missing[@]}" >/dev/null
# nor at the next boot
for unit in openssh-server:ssh.service openssh-server:ssh.socket prometheus:prometheus.service; do
    [[ " ${missing[*]} " == *" ${unit%%:*} "* ]] || continue
    systemctl disable --quiet "${unit#*:}" >/dev/null 2>&1 || true
done
