#!/usr/bin/env bash
# Runs every fuzz target of the module for the given time each (default 30s).
set -euo pipefail
cd "$(dirname "$0")/.."

time=${1:-30s}
grep -rl --include='*_test.go' '^func Fuzz' . | sort | while read -r file; do
	package=./$(dirname "${file#./}")
	grep -o '^func Fuzz[A-Za-z0-9_]*' "$file" | cut -d' ' -f2 | while read -r target; do
		echo "== $package $target"
		go test -run='^$' -fuzz="^$target\$" -fuzztime="$time" "$package" </dev/null
	done
done
