#!/bin/bash
# PID 1 of the guest after early.sh, from the share: a minimal environment, one case of /lab/tests/lab/cases, power off.
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C.UTF-8
mount -t tmpfs run /run -o mode=755
mkdir -p /run/lock /run/netns /dev/pts /dev/shm
mount -t devpts pts /dev/pts
mount -t tmpfs shm /dev/shm
mount -t tmpfs tmp /tmp
mount -t tmpfs vartmp /var/tmp
hostname lab
ip link set lo up
echo 3 >/proc/sys/kernel/printk
for word in $(</proc/cmdline); do
  case $word in lab.case=*) case=${word#*=} ;; lab.only=*) only=${word#*=} ;; esac
done
read -r up _ </proc/uptime
echo "LAB: case $case starts $up s after power on"
# Programs and libraries from memory: through the share every page fault would be a request to the host.
mkdir -p /tmp/muster
cp -r /lab/bin /lab/lib /tmp/muster/
export LD_LIBRARY_PATH=/tmp/muster/lib MUSTER_BIN=/tmp/muster/bin MUSTER_SOURCE=/lab MUSTER_TEST_DIR=/tmp
export PYTHONPATH=/lab/tests/lab:/lab/tests/e2e PYTHONDONTWRITEBYTECODE=1
cd /tmp
python3 -B "/lab/tests/lab/cases/$case.py" $only </dev/null >/lab/out/output 2>&1
rc=$?
dmesg >/lab/out/dmesg
read -r up _ </proc/uptime
echo "LAB: case $case ended with $rc, $up s after power on"
echo "$rc" >/lab/out/rc
sync
busybox poweroff -f
sleep 60
