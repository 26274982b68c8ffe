#!/usr/bin/env bash
# From a fresh Debian 12 machine to a measured, checked result: installs what is missing, builds, starts an iSCSI target
# (tgtd) of its own on loopback, runs a campaign with eight initiators on three local agents over its LUNs and over a
# file, prints the table, says where everything is. Asks nothing, leaves nothing running. MUSTER_QUICKSTART_DIR: where the
# temporary files go (default: beside this project, on a real disk).
set -euo pipefail
cd "$(dirname "$0")/.."
PATH=$PATH:/usr/sbin:/sbin
started=$SECONDS

deploy/packages.sh build
# The target server is for the LUN part alone: without it the rest still says something.
deploy/packages.sh quickstart || echo "quickstart: no tgt, so no iSCSI target: the file part alone"
build=build/release
jobs=$(nproc)
# A compiler of gRPC code takes up to 1 GiB: no more jobs than memory carries.
memory=$(awk '/MemAvailable/ {print int($2 / 1048576)}' /proc/meminfo)
[ "$memory" -lt "$jobs" ] && jobs=$((memory > 1 ? memory : 1))
mkdir -p build
[ -x $build/bin/muster ] || echo "building (some minutes the first time, log: build/quickstart.log) ..."
if ! { cmake --preset release -DMUSTER_BUILD_TESTS=OFF && cmake --build $build --parallel "$jobs" --target muster muster-agent; } >build/quickstart.log 2>&1; then
  tail -n 40 build/quickstart.log >&2
  echo "quickstart: the build failed; the whole log is build/quickstart.log" >&2
  exit 3
fi
echo "built in $((SECONDS - started)) s: $build/bin/muster, $build/bin/muster-agent"

data=$(mktemp -d "${MUSTER_QUICKSTART_DIR:-$PWD/build}/quickstart-XXXXXX")
tgtd=0 port=0
control=$((RANDOM % 30000 + 1))

admin() { TGT_IPC_SOCKET=$data/ipc tgtadm -C "$control" --lld iscsi "$@"; }

# tgtd ends by itself only when it has no target.
# shellcheck disable=SC2317  # called by the trap
leave() {
  if [ "$tgtd" -ne 0 ]; then
    admin --op delete --force --mode target --tid 1 >/dev/null 2>&1 || true
    admin --op delete --mode system >/dev/null 2>&1 || true
    for _ in $(seq 50); do
      kill -0 "$tgtd" 2>/dev/null || break
      sleep 0.1
    done
    kill -KILL "$tgtd" 2>/dev/null || true
    wait "$tgtd" 2>/dev/null || true
  fi
  rm -rf "$data"
}
trap leave EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP

# Needs no root: the port is above 1023, the control socket lies in our directory. Tuned: without the malloc settings
# every command maps and unmaps its buffer. It dies with this script, however that ends, and so does the run.
start_tgtd() {
  command -v tgtd >/dev/null && command -v tgtadm >/dev/null || return 1
  for _ in $(seq 10); do
    port=$((RANDOM % 12000 + 20000))
    TGT_IPC_SOCKET=$data/ipc MALLOC_MMAP_THRESHOLD_=67108864 MALLOC_TRIM_THRESHOLD_=268435456 MALLOC_TOP_PAD_=67108864 \
      setpriv --pdeathsig KILL tgtd -f -C "$control" -t 1 --iscsi portal=127.0.0.1:$port >"$data/tgtd.log" 2>&1 </dev/null &
    tgtd=$!
    for _ in $(seq 60); do
      kill -0 "$tgtd" 2>/dev/null || break
      admin --op show --mode system >/dev/null 2>&1 && return 0
      sleep 0.05
    done
    # The port was taken.
    kill -KILL "$tgtd" 2>/dev/null || true
    wait "$tgtd" 2>/dev/null || true
    tgtd=0
    control=$((control % 30000 + 1))
  done
  return 1
}

make_luns() {
  admin --op new --mode target --tid 1 -T iqn.2026-11.net.muster:quickstart || return 1
  local setting lun
  for setting in MaxXmitDataSegmentLength=262144 MaxRecvDataSegmentLength=262144 InitialR2T=No FirstBurstLength=262144 MaxBurstLength=1048576 MaxQueueCmd=512; do
    admin --op update --mode target --tid 1 --name "${setting%=*}" --value "${setting#*=}" || return 1
  done
  for lun in 1 2 3 4; do
    truncate -s 256M "$data/lun$lun.img" || return 1
    admin --op new --mode logicalunit --tid 1 --lun $lun -b "$data/lun$lun.img" || return 1
  done
  admin --op new --mode account --user quickstart --password "$secret" || return 1
  admin --op bind --mode account --tid 1 --user quickstart || return 1
  admin --op bind --mode target --tid 1 -I 127.0.0.1
}

secret=$(od -An -N12 -tx1 /dev/urandom | tr -d ' \n')  # tgtd knows it until it ends, nobody afterwards
mkdir "$data/files"
sed "s|@DIR@|$data|" deploy/quickstart.yaml >"$data/quickstart.yaml"
if start_tgtd && make_luns; then
  sed -i "s|@PORTAL@|127.0.0.1:$port|" "$data/quickstart.yaml"
  echo "tgtd, tuned, 4 LUNs behind CHAP on 127.0.0.1:$port: the target is on the same host"
else
  sed -i '/# luns {/,/# luns }/d' "$data/quickstart.yaml"
  [ -e "$data/tgtd.log" ] && tail -n 5 "$data/tgtd.log"
  echo "no iSCSI target could be started on this machine: what follows is the file part alone"
fi

muster=$build/bin/muster
"$muster" version
runs=$PWD/build/runs
status=0
MUSTER_QUICKSTART_SECRET=$secret setpriv --pdeathsig TERM "$muster" run "$data/quickstart.yaml" --local 3 --runs "$runs" || status=$?
if [ "$status" -le 1 ] && [ -e "$runs" ]; then
  mkdir -p build/exports
  for format in json csv hlog; do
    "$muster" results --runs "$runs" export last --format $format --output "build/exports/quickstart.$format"
  done
  echo "exports:  build/exports/quickstart.{json,csv,hlog}"
  echo "see also: $muster results --runs build/runs show last    $muster help campaign"
fi
echo "quickstart took $((SECONDS - started)) s, exit $status"
exit $status
