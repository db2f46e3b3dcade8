#!/usr/bin/env bash
# Compares the Go API of the module in the working directory with that of its last tag.
# An incompatible change is a failure, except before 1.0, where "### Changed" or
# "### Removed" under "## [Unreleased]" in CHANGELOG.md announces it. Without a tag there
# is nothing to compare with.
set -euo pipefail
tools=$(cd "$(dirname "${BASH_SOURCE[0]}")/../internal/tools" && pwd)

tag=$(git describe --tags --abbrev=0 --match 'v[0-9]*' 2>/dev/null) || {
  echo "apicheck: no version is tagged yet: nothing to compare with"
  exit 0
}
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
apidiff=$(cd "$tools" && go tool -n apidiff)
module=$(go list -m)
mkdir "$tmp/old"
git archive "$tag" | tar -x -C "$tmp/old"
(cd "$tmp/old" && "$apidiff" -m -w "$tmp/old.api" "$module")
"$apidiff" -m -w "$tmp/new.api" "$module"
changes=$("$apidiff" -m -incompatible "$tmp/old.api" "$tmp/new.api")
[ -n "$changes" ] || {
  echo "apicheck: compatible with $tag"
  exit 0
}
printf 'apicheck: incompatible with %s\n%s\n' "$tag" "$changes"
[[ $tag == v0.* ]] || exit 1
awk '/^## /{unreleased = /\[Unreleased\]/} unreleased && /^### (Changed|Removed)/{found = 1} END{exit !found}' CHANGELOG.md || {
  echo 'apicheck: announce it in CHANGELOG.md, under "### Changed" or "### Removed" of "## [Unreleased]"'
  exit 1
}
