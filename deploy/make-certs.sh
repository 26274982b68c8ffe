#!/usr/bin/env bash
# Makes the certificates of a fleet with openssl: an authority, one for the controller, one for each agent and user.
#   deploy/make-certs.sh DIR [--agent ID]... [--user NAME[:viewer|operator]]... [--days N]
# Without --agent and --user: one agent named like this host, one user named like you, an operator. What is in DIR
# already is kept (delete a file to have it made anew), so more agents can be added later. Nothing else is touched.
#   DIR/ca.crt, DIR/ca.key       the authority; keep ca.key off the controller and the agents
#   DIR/controller.{crt,key}     muster serve --ca DIR/ca.crt --cert DIR/controller.crt --key DIR/controller.key
#   DIR/agent-ID.{crt,key}       muster-agent --ca ... (copy these two and ca.crt to the agent's host)
#   DIR/user-NAME.{crt,key}      muster run|agents|watch ... --ca ...
set -euo pipefail
usage() { sed -n '2,10p' "$0" | sed 's/^# \{0,1\}//' >&2; exit 2; }
fail() { echo "make-certs.sh: $*" >&2; exit 2; }

dir='' days=825 agents=() users=()
while [ $# -gt 0 ]; do
  case "$1" in
    --agent) agents+=("${2:?--agent needs a name}"); shift ;;
    --user) users+=("${2:?--user needs a name}"); shift ;;
    --days) days=${2:?--days needs a number}; shift ;;
    -h | --help) usage ;;
    -*) fail "unknown option $1" ;;
    *) [ -z "$dir" ] || fail "one directory only"; dir=$1 ;;
  esac
  shift
done
[ -n "$dir" ] || usage
[[ $days =~ ^[0-9]{1,5}$ ]] && [ "$days" -gt 0 ] || fail "--days: a number of days is needed"
command -v openssl >/dev/null || fail "openssl is missing: apt-get install openssl"
if [ ${#agents[@]} -eq 0 ] && [ ${#users[@]} -eq 0 ]; then
  agents=("$(uname -n)")
  users=("$(id -un)")
fi
good='^[A-Za-z0-9._-]{1,64}$'
for name in "${agents[@]}"; do [[ $name =~ $good ]] || fail "agent \"$name\": letters, digits, . _ - only, 64 at most"; done
for name in "${users[@]}"; do
  [[ ${name%%:*} =~ $good ]] || fail "user \"${name%%:*}\": letters, digits, . _ - only, 64 at most"
  [[ $name != *:* || ${name#*:} == viewer || ${name#*:} == operator ]] || fail "user \"$name\": the role is viewer or operator"
done

umask 077
mkdir -p "$dir"
work=$(mktemp -d "$dir/.making.XXXXXX")
trap 'rm -rf "$work"' EXIT

new_key() { openssl genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-256 -out "$1" 2>/dev/null; }

if [ ! -e "$dir/ca.crt" ] && [ ! -e "$dir/ca.key" ]; then
  new_key "$work/ca.key"
  openssl req -x509 -new -key "$work/ca.key" -sha256 -days 3650 -subj "/CN=muster authority" -out "$work/ca.crt" \
    -addext "basicConstraints=critical,CA:TRUE,pathlen:0" -addext "keyUsage=critical,keyCertSign,cRLSign"
  mv "$work/ca.key" "$work/ca.crt" "$dir/"
  echo "made $dir/ca.crt"
fi
[ -e "$dir/ca.crt" ] && [ -e "$dir/ca.key" ] || fail "$dir holds only one of ca.crt and ca.key: both are needed to sign"

# make NAME SUBJECT EKU SAN
make() {
  local name=$1 subject=$2 use=$3 san=$4
  if [ -e "$dir/$name.crt" ] && [ -e "$dir/$name.key" ]; then
    echo "kept $dir/$name.crt"
    return
  fi
  new_key "$work/key"
  printf 'basicConstraints=critical,CA:FALSE\nkeyUsage=critical,digitalSignature\nextendedKeyUsage=%s\nsubjectAltName=%s\n' \
    "$use" "$san" >"$work/ext"
  openssl req -new -key "$work/key" -subj "/CN=$subject" -out "$work/csr"
  openssl x509 -req -in "$work/csr" -CA "$dir/ca.crt" -CAkey "$dir/ca.key" -set_serial "0x$(openssl rand -hex 16)" \
    -sha256 -days "$days" -extfile "$work/ext" -out "$work/crt" 2>/dev/null
  mv "$work/key" "$dir/$name.key"
  mv "$work/crt" "$dir/$name.crt"
  chmod 644 "$dir/$name.crt"
  echo "made $dir/$name.crt"
}

make controller "muster controller" serverAuth DNS:controller.muster
for name in "${agents[@]}"; do make "agent-$name" "agent $name" clientAuth "URI:muster://agent/$name"; done
for name in "${users[@]}"; do
  role=operator
  [[ $name == *:* ]] && role=${name#*:}
  make "user-${name%%:*}" "user ${name%%:*}" clientAuth "URI:muster://user/${name%%:*}?role=$role"
done
