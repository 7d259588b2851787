#!/bin/sh
# customize.sh ROOT PASSWORD: turn a fresh Debian root into one that many lab hosts share.
set -eu
root=$1 password=$2

chroot "$root" useradd --create-home --shell /bin/bash deploy
chroot "$root" useradd --create-home --shell /bin/bash ops
echo "ops:$password" | chroot "$root" chpasswd
cat > "$root/etc/sudoers.d/lab" <<'RULES'
Defaults !fqdn
deploy ALL=(ALL:ALL) NOPASSWD: ALL
ops ALL=(ALL:ALL) ALL
RULES
chmod 440 "$root/etc/sudoers.d/lab"

install -d "$root/etc/ssh/sshd_config.d" "$root/var/log/journal" "$root/var/lib/systemd/linger"
cat > "$root/etc/ssh/sshd_config.d/lab.conf" <<'OPTIONS'
UseDNS no
PasswordAuthentication no
PermitRootLogin prohibit-password
LogLevel VERBOSE
OPTIONS
touch "$root/var/lib/systemd/linger/deploy"
chroot "$root" install -d -o deploy -g deploy /srv/app

# every host gets keys and an identity of its own
rm -f "$root"/etc/ssh/ssh_host_*_key* "$root/var/lib/dbus/machine-id"
: > "$root/etc/machine-id"

# units that only wait for something a namespace does not have
for unit in apt-daily.timer apt-daily-upgrade.timer dpkg-db-backup.timer e2scrub_all.timer fstrim.timer \
    console-getty.service getty@tty1.service systemd-networkd.service systemd-networkd.socket \
    systemd-resolved.service systemd-network-generator.service dev-hugepages.mount \
    sys-fs-fuse-connections.mount; do
    ln -sfn /dev/null "$root/etc/systemd/system/$unit"
done
