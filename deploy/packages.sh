#!/usr/bin/env bash
# Installs the Debian packages named by its arguments' groups (build, quickstart, test, bench, lab) that are missing. Prints nothing if none is.
set -euo pipefail

build=(g++ cmake ninja-build ccache pkg-config git ca-certificates
       libgrpc++-dev libprotobuf-dev protobuf-compiler protobuf-compiler-grpc libabsl-dev libspdlog-dev libfmt-dev
       liburing-dev libyaml-cpp-dev libcli11-dev libsqlite3-dev libblkid-dev nlohmann-json3-dev zlib1g-dev libssl-dev openssl
       libiscsi-dev libgcrypt20-dev libibverbs-dev librdmacm-dev libncurses-dev)
test=(tgt qemu-utils qemu-block-extra catch2 libbenchmark-dev python3 util-linux iproute2 faketime mount fdisk e2fsprogs xfsprogs procps sqlite3 bash-completion clang-format clang-tidy)
quickstart=(tgt util-linux)
bench=(fio libiscsi-bin tgt)
lab=(qemu-system-x86 mmdebstrap busybox-static cpio e2fsprogs kmod python3)

wanted=()
for group in "$@"; do
  case "$group" in
    build) wanted+=("${build[@]}") ;;
    quickstart) wanted+=("${quickstart[@]}") ;;
    test) wanted+=("${test[@]}") ;;
    bench) wanted+=("${bench[@]}") ;;
    lab) wanted+=("${lab[@]}") ;;
    *) echo "usage: $0 build|quickstart|test|bench|lab ..." >&2; exit 2 ;;
  esac
done
missing=()
for package in "${wanted[@]}"; do
  dpkg-query -W -f '${Status}' "$package" 2>/dev/null | grep -q 'ok installed' || missing+=("$package")
done
[ ${#missing[@]} -eq 0 ] && exit 0

sudo=()
if [ "$(id -u)" -ne 0 ]; then
  command -v sudo >/dev/null || { echo "missing packages: ${missing[*]}; run as root or install sudo" >&2; exit 3; }
  sudo=(sudo)
fi
echo "installing ${#missing[@]} packages: ${missing[*]}"
"${sudo[@]}" apt-get update -qq
"${sudo[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
# The package starts its daemon, on every address: here it is only wanted as a program.
if [[ " ${missing[*]} " == *" tgt "* && -d /run/systemd/system ]]; then
  "${sudo[@]}" systemctl disable --now --quiet tgt.service || true
fi
