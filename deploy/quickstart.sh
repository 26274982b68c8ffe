#!/usr/bin/env bash
# From a fresh Debian 12 machine to a measured, checked result: installs what is missing, builds, runs a campaign on
# three local agents over temporary files, prints the table, says where everything is. Asks nothing, leaves nothing
# running. MUSTER_QUICKSTART_DIR: where the temporary files go (default: beside this project, on a real disk).
set -euo pipefail
cd "$(dirname "$0")/.."
started=$SECONDS

deploy/packages.sh build
build=build/release
jobs=$(nproc)
# A compiler of gRPC code takes up to 1 GiB: no more jobs than memory carries.
memory=$(awk '/MemAvailable/ {print int($2 / 1048576)}' /proc/meminfo)
[ "$memory" -lt "$jobs" ] && jobs=$((memory > 1 ? memory : 1))
mkdir -p build
if ! { cmake --preset release -DMUSTER_BUILD_TESTS=OFF && cmake --build $build --parallel "$jobs" --target muster muster-agent; } >build/quickstart.log 2>&1; then
  tail -n 40 build/quickstart.log >&2
  echo "quickstart: the build failed; the whole log is build/quickstart.log" >&2
  exit 3
fi
echo "built in $((SECONDS - started)) s: $build/bin/muster, $build/bin/muster-agent"

data=$(mktemp -d "${MUSTER_QUICKSTART_DIR:-$PWD/build}/quickstart-XXXXXX")
trap 'rm -rf "$data"' EXIT
sed "s|@DIR@|$data|" deploy/quickstart.yaml >"$data/quickstart.yaml"

muster=$build/bin/muster
"$muster" version
runs=$PWD/build/runs
status=0
"$muster" run "$data/quickstart.yaml" --local 3 --runs "$runs" || status=$?
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
