#!/bin/sh
# First process of the guest: modules, the root image read-only below a tmpfs, the shared folder; then init.sh.
export PATH=/bin
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev
for m in $(cat /modules/order); do insmod "/modules/$m" || echo "LAB: insmod $m failed"; done
mount -t ext4 -o ro /dev/vda /lower || { echo "LAB: no root"; poweroff -f; }
mount -t tmpfs -o mode=755 rw /rw
mkdir -p /rw/upper /rw/work
mount -t overlay -o lowerdir=/lower,upperdir=/rw/upper,workdir=/rw/work overlay /root
mkdir -p /root/lab /root/proc /root/sys /root/dev
mount -t 9p -o trans=virtio,version=9p2000.L,cache=none,msize=512000 lab /root/lab || { echo "LAB: no share"; poweroff -f; }
mount --move /proc /root/proc
mount --move /sys /root/sys
mount --move /dev /root/dev
exec switch_root /root /bin/bash /lab/tests/lab/guest/init.sh
