#!/usr/bin/env bash
# Makes what the lab boots, from Debian packages alone: OUT/{vmlinuz,initrd.gz,root.ext4,stamp}. Usage: build.sh OUT
# Does nothing where they are made already by these very files. Exit 77: it cannot be done on this machine, reason printed.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
out=${1:?usage: build.sh OUT}
mkdir -p "$out"
out=$(cd "$out" && pwd)

skip() { echo "SKIP lab: $*"; exit 77; }

stamp=$(cat "$here"/build.sh "$here"/modules.py "$here"/guest/early.sh | sha256sum | cut -c1-16)
if [ "$(cat "$out/stamp" 2>/dev/null)" = "$stamp" ] && [ -s "$out/vmlinuz" ] && [ -s "$out/initrd.gz" ] && [ -s "$out/root.ext4" ]; then
  exit 0
fi
[ "$(id -u)" -eq 0 ] || skip "needs root to make a root file system"
[ "$(uname -m)" = x86_64 ] || skip "made for x86_64 only"
command -v apt-get >/dev/null || skip "no apt-get: the guest is made of Debian packages"
"$here/../../deploy/packages.sh" lab >"$out/host.log" 2>&1 || skip "QEMU and mmdebstrap cannot be installed: $(tail -n 1 "$out/host.log")"

began=$SECONDS
say() { echo "[$((SECONDS - began)) s] $*"; }
rm -f "$out/stamp"
work=$(mktemp -d "$out/work.XXXXXX")
trap 'rm -rf "$work"' EXIT

# The full kernel: the cloud one has neither RDMA nor 9p.
kernel=$(apt-cache depends linux-image-amd64 2>/dev/null | awk '/Depends:/ && !n++ { print $2 }')
[ -n "$kernel" ] || skip "apt knows no linux-image-amd64"
version=${kernel#linux-image-}
mkdir "$work/kernel" "$work/modules"
(cd "$work" && timeout 300 apt-get download -qq -o APT::Sandbox::User=root "$kernel" >"$out/kernel.log" 2>&1) ||
  skip "$kernel cannot be downloaded: $(tail -n 1 "$out/kernel.log")"
dpkg -x "$work"/linux-image-*.deb "$work/kernel"
cp "$work/kernel/boot/vmlinuz-$version" "$out/vmlinuz"
say "kernel $version"

packages=python3,iproute2,kmod,mount,util-linux,util-linux-extra,procps,e2fsprogs,xfsprogs,dmsetup,mdadm,sg3-utils,libiscsi-bin,libiscsi7,ibverbs-providers,libibverbs1,librdmacm1,busybox-static,netbase
sources=$(ls /etc/apt/sources.list /etc/apt/sources.list.d/debian.* 2>/dev/null || true)
timeout 900 mmdebstrap --quiet --variant=essential --mode=root --format=directory \
  --aptopt='Apt::Install-Recommends "false"' --aptopt='Acquire::Languages "none"' \
  --dpkgopt='path-exclude=/usr/share/man/*' --dpkgopt='path-exclude=/usr/share/doc/*' \
  --dpkgopt='path-exclude=/usr/share/locale/*' --dpkgopt='path-exclude=/usr/share/info/*' \
  --include="$packages" bookworm "$work/root" $sources >"$out/root.log" 2>&1 ||
  skip "the guest's packages cannot be had: $(grep -E '^E:' "$out/root.log" | tail -n 1)"
say "guest packages"

# The early modules in the order to load them, and a module tree with nothing the cases do not use.
from=$work/kernel/lib/modules/$version
[ -f "$from/modules.dep" ] || depmod -b "$work/kernel" "$version"
python3 -B "$here/modules.py" "$from" early >"$work/early"
into=$work/root/usr/lib/modules/$version
rm -rf "$work/root/usr/lib/modules"
python3 -B "$here/modules.py" "$from" all | while read -r file; do
  install -D -m 644 "$from/$file" "$into/$file"
done
cp "$from"/modules.{builtin,builtin.modinfo,order} "$into/"
depmod -b "$work/root/usr" "$version" 2>/dev/null || depmod -b "$work/root" "$version"

early=$work/initrd
mkdir -p "$early"/{bin,modules,proc,sys,dev,lower,rw,root}
while read -r file; do
  cp "$from/$file" "$early/modules/"
  basename "$file" >>"$early/modules/order"
done <"$work/early"
cp /bin/busybox "$early/bin/"
for tool in sh mount insmod switch_root mkdir cat echo poweroff; do ln -s busybox "$early/bin/$tool"; done
install -m 755 "$here/guest/early.sh" "$early/init"
(cd "$early" && find . | cpio -o -H newc --quiet) | gzip -1 >"$out/initrd.gz"

mkdir -p "$work/root/lab"
rm -f "$out/root.ext4"
truncate -s 1200M "$out/root.ext4"
mke2fs -q -t ext4 -O ^has_journal -m 0 -d "$work/root" "$out/root.ext4"
echo "$stamp" >"$out/stamp"
say "ready: $(du -sh "$out/root.ext4" | cut -f1) root, kernel $version"
